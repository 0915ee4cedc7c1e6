#include "compiler/predicted.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "calibrate.h"
#include "ops/reference.h"
#include "report/account.h"

namespace opweld::cli {

namespace {

// Of each kernel, the median over runs for about a second, between which the machine is measured.
Expected<std::vector<double>> measured(Executable& executable, const std::vector<Tensor>& inputs,
                                       Calibration& calibration) {
  constexpr int kTurns = 10;
  constexpr double kSecondsOfTurn = 0.1;
  OPWELD_TRY(std::vector<Tensor> outputs, executable.run(inputs));
  RunOptions options;
  options.profile = true;
  std::vector<std::vector<double>> times;
  for (int turn = 0; turn < kTurns; ++turn) {
    OPWELD_CHECK(calibration.sample());
    // What the machine was measured with has displaced the model's weights.
    OPWELD_CHECK(executable.run_into(inputs, outputs));
    const auto start = std::chrono::steady_clock::now();
    do {
      RunStats stats;
      OPWELD_CHECK(executable.run_into(inputs, outputs, &stats, options));
      times.resize(stats.by_kernel.size());
      for (std::size_t i = 0; i < times.size(); ++i) times[i].push_back(stats.by_kernel[i].seconds);
    } while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() <
             kSecondsOfTurn);
  }
  std::vector<double> medians;
  for (std::vector<double>& each : times) {
    const auto middle = each.begin() + static_cast<std::ptrdiff_t>(each.size() / 2);
    std::nth_element(each.begin(), middle, each.end());
    medians.push_back(*middle);
  }
  return medians;
}

const char* bound_of(const KernelCost& cost) {
  const double work = std::max(cost.memory_seconds, cost.compute_seconds);
  if (work < cost.launch_seconds) return "launch";
  return cost.memory_seconds > cost.compute_seconds ? "memory" : "compute";
}

}  // namespace

Expected<KernelTimes> kernel_times(Compiled& compiled, const ModelOptions& model,
                                   const std::vector<Tensor>& inputs) {
  Executable& executable = compiled.executable;
  KernelTimes times;
  OPWELD_TRY(const Target target, find_target(model.target));
  OPWELD_TRY(Calibration calibration, Calibration::create(target, executable.threads()));
  OPWELD_TRY(times.measured_seconds, measured(executable, inputs, calibration));
  times.rates = calibration.rates();
  OPWELD_TRY(const Bindings sizes, bind_symbols(executable.graph(), inputs));
  const PlanVersion& version = executable.versions()[executable.version_for(sizes)];
  OPWELD_TRY(times.predicted, predict_kernels(version, times.rates, sizes, executable.threads()));
  times.median_error = median_error(times.predicted, times.measured_seconds);
  return times;
}

namespace {

double millions_of_operations(const Work& work) {
  return 2 * (work.vector_multiply_adds + work.matrix_multiply_adds) / 1e6;
}

void add(nlohmann::ordered_json& entry, const KernelPrediction& predicted) {
  const auto& [work, cost] = predicted;
  entry["predicted_seconds"] = cost.seconds();
  entry["memory_seconds"] = cost.memory_seconds;
  entry["compute_seconds"] = cost.compute_seconds;
  entry["launch_seconds"] = cost.launch_seconds;
  entry["multiply_adds"] = work.vector_multiply_adds + work.matrix_multiply_adds;
  entry["instructions"] = work.instructions;
  entry["streamed_bytes"] = work.streamed_bytes;
}

}  // namespace

void print_predictions(const FusionPlan& plan,
                       std::span<const std::optional<KernelPrediction>> predicted) {
  fmt::print("\n{:<16} {:>12} {:>8} {:>14} {:>12}  {}\n", "kernel", "predicted", "bound by",
             "operations", "streamed", "operators");
  double seconds = 0;
  double streamed = 0;
  for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
    const Kernel& kernel = plan.kernels[i];
    if (!predicted[i]) {
      fmt::print("{:<16} {:>12} {:>8} {:>14} {:>12}  {}\n", kernel.name, "a call", "", "", "",
                 kernel.label);
      continue;
    }
    const auto& [work, cost] = *predicted[i];
    seconds += cost.seconds();
    streamed += work.streamed_bytes;
    fmt::print("{:<16} {:>9.1f} us {:>8} {:>12.1f} M {:>12}  {}\n", kernel.name,
               cost.seconds() * 1e6, bound_of(cost), millions_of_operations(work),
               human_bytes(work.streamed_bytes), kernel.label);
  }
  fmt::print("{:<16} {:>9.1f} us {:>8} {:>14} {:>12}\n", "all", seconds * 1e6, "", "",
             human_bytes(streamed));
}

nlohmann::ordered_json predictions_json(
    const FusionPlan& plan, std::span<const std::optional<KernelPrediction>> predicted) {
  nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
  double seconds = 0;
  double streamed = 0;
  for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
    nlohmann::ordered_json entry = {{"kernel", plan.kernels[i].name},
                                    {"label", plan.kernels[i].label}};
    if (predicted[i]) {
      add(entry, *predicted[i]);
      seconds += predicted[i]->cost.seconds();
      streamed += predicted[i]->work.streamed_bytes;
    }
    kernels.push_back(std::move(entry));
  }
  return {{"seconds", seconds}, {"streamed_bytes", streamed}, {"kernels", std::move(kernels)}};
}

void print_kernel_times(const FusionPlan& plan, const KernelTimes& times) {
  fmt::print("\n{:<16} {:>12} {:>12} {:>7} {:>8} {:>12} {:>12}  {}\n", "kernel", "predicted",
             "measured", "ratio", "bound by", "operations", "streamed", "operators");
  constexpr double kMicro = 1e6;
  for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
    const Kernel& kernel = plan.kernels[i];
    const double measured = times.measured_seconds[i];
    const auto& predicted = times.predicted[i];
    if (!predicted) {
      fmt::print("{:<16} {:>12} {:>9.1f} us {:>7} {:>8} {:>12} {:>12}  {}\n", kernel.name, "a call",
                 measured * kMicro, "", "", "", "", kernel.label);
      continue;
    }
    const auto& [work, cost] = *predicted;
    fmt::print("{:<16} {:>9.1f} us {:>9.1f} us {:>6.2f}x {:>8} {:>10.1f} M {:>12}  {}\n",
               kernel.name, cost.seconds() * kMicro, measured * kMicro, cost.seconds() / measured,
               bound_of(cost), millions_of_operations(work), human_bytes(work.streamed_bytes),
               kernel.label);
  }
  fmt::print("half of the kernels are predicted within {:.0f} %\n", times.median_error * 100);
}

nlohmann::ordered_json kernel_times_json(const FusionPlan& plan, const KernelTimes& times) {
  nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
    nlohmann::ordered_json entry = {{"kernel", plan.kernels[i].name},
                                    {"label", plan.kernels[i].label},
                                    {"measured_seconds", times.measured_seconds[i]}};
    if (const auto& predicted = times.predicted[i]) add(entry, *predicted);
    kernels.push_back(std::move(entry));
  }
  return {{"median_error", times.median_error}, {"kernels", std::move(kernels)}};
}

}  // namespace opweld::cli
