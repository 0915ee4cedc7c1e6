// The time of each kernel by the kernel model (fusion/cost.h), to hold against what was measured.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fusion/cost.h"
#include "runtime/executable.h"
#include "support/expected.h"
#include "target/target.h"

namespace opweld {

struct KernelPrediction {
  Work work;
  KernelCost cost;
};

// For each kernel of the version in order; nothing for a call, whose inside nobody knows. Sizes
// must name every symbol.
Expected<std::vector<std::optional<KernelPrediction>>> predict_kernels(const PlanVersion& version,
                                                                       const Target& target,
                                                                       const Bindings& sizes,
                                                                       int threads);

// The median over kernels of |predicted / measured - 1|; kernels without a prediction or of no
// measured time are left out. 0 where none is left.
double median_error(std::span<const std::optional<KernelPrediction>> predicted,
                    std::span<const double> measured_seconds);

}  // namespace opweld
