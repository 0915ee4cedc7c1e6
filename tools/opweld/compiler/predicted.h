// The time of each kernel: as the kernel model has it, and as it was.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "compile.h"
#include "compiler/session.h"
#include "report/prediction.h"

namespace opweld::cli {

struct KernelTimes {
  std::vector<std::optional<KernelPrediction>> predicted;
  std::vector<double> measured_seconds;  // medians
  double median_error = 0;               // see report/prediction.h
  Target rates;                          // that the predictions are made of
};

// Runs the model, by turns with what measures the rates of the machine, on as many inputs as the
// sizes ask for.
Expected<KernelTimes> kernel_times(Compiled& compiled, const ModelOptions& model,
                                   const std::vector<Tensor>& inputs);

// A table of what the kernel model expects of each kernel, and sums below it.
void print_predictions(const FusionPlan& plan,
                       std::span<const std::optional<KernelPrediction>> predicted);
// {"seconds", "streamed_bytes", "kernels": [...]}: the sums are without calls, of which nothing is
// known.
nlohmann::ordered_json predictions_json(const FusionPlan& plan,
                                        std::span<const std::optional<KernelPrediction>> predicted);

// A table, and below it how far predictions are off.
void print_kernel_times(const FusionPlan& plan, const KernelTimes& times);
nlohmann::ordered_json kernel_times_json(const FusionPlan& plan, const KernelTimes& times);

}  // namespace opweld::cli
