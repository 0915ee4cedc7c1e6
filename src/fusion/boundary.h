// What a kernel reads and writes, by its nodes alone.
#pragma once

#include "fusion/plan.h"

namespace opweld {

// Fills inputs, constants and outputs from the nodes and those recomputed; the part of
// complete_kernel() that costs and bounds ask for, without names.
void find_boundary(Kernel& kernel);

}  // namespace opweld
