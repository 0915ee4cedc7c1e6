#include "report/prediction.h"

#include <algorithm>
#include <cmath>

#include "tile/work.h"

namespace opweld {

Expected<std::vector<std::optional<KernelPrediction>>> predict_kernels(const PlanVersion& version,
                                                                       const Target& target,
                                                                       const Bindings& sizes,
                                                                       int threads) {
  std::vector<std::optional<KernelPrediction>> predictions;
  for (std::size_t i = 0; i < version.kernels.size(); ++i) {
    const auto& program = version.kernels[i].program;
    if (program == nullptr) {
      predictions.emplace_back();
      continue;
    }
    KernelPrediction prediction;
    OPWELD_TRY(prediction.work, tile::count_work(*program, target, sizes));
    OPWELD_TRY(prediction.cost,
               kernel_cost(version.plan.kernels[i], prediction.work, target, sizes, threads));
    predictions.emplace_back(prediction);
  }
  return predictions;
}

double median_error(std::span<const std::optional<KernelPrediction>> predicted,
                    std::span<const double> measured_seconds) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < predicted.size() && i < measured_seconds.size(); ++i) {
    if (!predicted[i] || measured_seconds[i] <= 0) continue;
    errors.push_back(std::abs(predicted[i]->cost.seconds() / measured_seconds[i] - 1));
  }
  if (errors.empty()) return 0;
  const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
  std::nth_element(errors.begin(), middle, errors.end());
  return *middle;
}

}  // namespace opweld
