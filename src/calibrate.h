// The rates of this machine, measured with kernels of the simplest kind.
#pragma once

#include "compile.h"
#include "target/target.h"

namespace opweld {

// The target with the rates that its kernels reach here: of memory and of a cache (one pointwise
// operator over 64 MB, and over what fits), of multiply-adds and of the matrix unit (a product of
// 512 and of 1024 a side), and what a launch takes (a kernel of one vector). Divided by the shares
// that the kernel model takes kernels to reach of a peak (fusion/cost.h). The best of several runs
// each; takes less than a second. Planning does not use it, since a plan that depended on it would
// not be the same each time.
Expected<Target> calibrated(const Target& target, int threads);

}  // namespace opweld
