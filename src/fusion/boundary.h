// What a kernel reads and writes, by its nodes alone.
#pragma once

#include "fusion/plan.h"

namespace opweld {

// Fills inputs, constants and outputs from the nodes and those recomputed; the part of
// complete_kernel() that costs and bounds ask for, without names.
void find_boundary(Kernel& kernel);

// FusionPlan::bytes_read() and bytes_written() for sizes that are known, and what the kernel's
// constants are long. A symbol that the sizes lack is an error, and so is a tensor that is too
// large to be counted.
struct BoundaryBytes {
  double read = 0;
  double written = 0;
  double constants = 0;
};
Expected<BoundaryBytes> boundary_bytes(const Kernel& kernel, const Bindings& sizes);

}  // namespace opweld
