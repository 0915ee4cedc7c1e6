// What is known of a kernel once a schedule has made its program.
#pragma once

#include "fusion/kernel_estimate.h"
#include "target/target.h"
#include "tile/lower.h"

namespace opweld::tile {

// Keeps the program, to count what it does at whatever sizes. The target must live as long.
KernelEstimate estimate(LoweredKernel kernel, const Target& target);

}  // namespace opweld::tile
