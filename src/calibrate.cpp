#include "calibrate.h"

#include <algorithm>
#include <cstddef>

#include "fusion/cost.h"
#include "ops/builder.h"
#include "runtime/example_inputs.h"

namespace opweld {

namespace {

// The kernels, in the order in which they are kept.
enum Kind : std::uint8_t { kLittleCopy, kTwiceThat, kFarCopy, kNearCopy, kProduct, kMatrixProduct };

constexpr std::int64_t kLittle = 1 << 15;
constexpr std::int64_t kFar = 16 << 20;
constexpr std::int64_t kBytesOfElement = 2 * 4;  // read and written
constexpr std::int64_t kSide = 512;
constexpr std::int64_t kMatrixSide = 1024;

std::string copy_text(std::int64_t elements) {
  return fmt::format("graph g(%x: f32[{}]) {{\n  %y = neg(%x)\n  return %y as \"y\"\n}}", elements);
}

std::string product_text(std::string_view type, std::int64_t side) {
  return fmt::format(
      "graph g(%x: {0}[{1}, {1}]) {{\n  %w = constant {{value = {0}[{1}, {1}] random 1}}\n"
      "  %y = matmul(%x, %w)\n  return %y as \"y\"\n}}",
      type, side);
}

double product_flops(std::int64_t side) {
  return 2 * static_cast<double>(side * side * side);
}

}  // namespace

Expected<Calibration::Probe> Calibration::probe_of(const std::string& text, const Target& target,
                                                   int threads) {
  OPWELD_TRY(Graph graph, parse_graph(text));
  CompileOptions options;
  options.target = target.name;
  options.threads = threads;
  OPWELD_TRY(std::vector<Tensor> inputs, example_inputs(graph, {}, 1));
  OPWELD_TRY(Compiled compiled, compile(std::move(graph), options));
  OPWELD_TRY(std::vector<Tensor> outputs, compiled.executable.run(inputs));
  return Probe{std::move(compiled), std::move(inputs), std::move(outputs), {}};
}

Status Calibration::run(Probe& probe) {
  RunOptions profiled;
  profiled.profile = true;
  RunStats stats;
  OPWELD_CHECK(probe.compiled.executable.run_into(probe.inputs, probe.outputs, &stats, profiled));
  probe.seconds.push_back(stats.by_kernel.front().seconds);
  return {};
}

Expected<Calibration> Calibration::create(const Target& target, int threads) {
  Calibration calibration;
  calibration.target_ = target;
  calibration.threads_ = threads > 0 ? threads : target.cores;
  // A quarter of a cache in all: the rest is others'.
  calibration.near_elements_ = target.l2_bytes / 4 / kBytesOfElement * calibration.threads_;
  std::vector<std::string> texts = {copy_text(kLittle), copy_text(2 * kLittle), copy_text(kFar),
                                    copy_text(calibration.near_elements_),
                                    product_text("f32", kSide)};
  if (target.has_amx_bf16) texts.push_back(product_text("bf16", kMatrixSide));
  for (const std::string& text : texts) {
    OPWELD_TRY(Probe probe, probe_of(text, target, calibration.threads_));
    calibration.probes_.push_back(std::move(probe));
  }
  return calibration;
}

Status Calibration::sample() {
  for (Probe& probe : probes_) {
    // The first run is warm again after it; it does not count.
    constexpr int kTimes = 3;
    OPWELD_CHECK(run(probe));
    probe.seconds.pop_back();
    for (int i = 0; i < kTimes; ++i) OPWELD_CHECK(run(probe));
  }
  return {};
}

Target Calibration::rates() const {
  const auto seconds = [&](Kind kind) {
    std::vector<double> times = probes_[kind].seconds;
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::ranges::nth_element(times, middle);
    return *middle;
  };
  Target result = target_;
  // Of a kernel that all threads share, what is left when its work is taken away.
  result.launch_seconds = std::max(0.0, 2 * seconds(kLittleCopy) - seconds(kTwiceThat));
  result.bandwidth =
      static_cast<double>(kFar * kBytesOfElement) / (seconds(kFarCopy) - result.launch_seconds);
  result.cache_bandwidth = static_cast<double>(near_elements_ * kBytesOfElement) /
                           (seconds(kNearCopy) - result.launch_seconds) / threads_;
  result.peak_flops = product_flops(kSide) / seconds(kProduct) / threads_ / kReachedOfFlops;
  if (target_.has_amx_bf16) {
    result.matrix_flops =
        product_flops(kMatrixSide) / seconds(kMatrixProduct) / threads_ / kReachedOfMatrixFlops;
  }
  return result;
}

}  // namespace opweld
