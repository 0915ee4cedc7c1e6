#include "calibrate.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "fusion/cost.h"
#include "ops/builder.h"
#include "runtime/example_inputs.h"

namespace opweld {

namespace {

// The least seconds of the one kernel that the graph is.
Expected<double> best_seconds(const std::string& text, const Target& target, int threads) {
  OPWELD_TRY(Graph graph, parse_graph(text));
  CompileOptions options;
  options.target = target.name;
  options.threads = threads;
  OPWELD_TRY(const std::vector<Tensor> inputs, example_inputs(graph, {}, 1));
  OPWELD_TRY(Compiled compiled, compile(std::move(graph), options));
  OPWELD_TRY(std::vector<Tensor> outputs, compiled.executable.run(inputs));
  RunOptions profiled;
  profiled.profile = true;
  constexpr double kEnough = 0.05;
  constexpr int kFewest = 5;
  double best = HUGE_VAL;
  double spent = 0;
  for (int i = 0; i < kFewest || spent < kEnough; ++i) {
    RunStats stats;
    const auto start = std::chrono::steady_clock::now();
    OPWELD_CHECK(compiled.executable.run_into(inputs, outputs, &stats, profiled));
    spent += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::min(best, stats.by_kernel.front().seconds);
  }
  return best;
}

std::string copy_text(std::int64_t elements) {
  return fmt::format("graph g(%x: f32[{}]) {{\n  %y = neg(%x)\n  return %y as \"y\"\n}}", elements);
}

std::string product_text(std::string_view type, std::int64_t side) {
  return fmt::format(
      "graph g(%x: {0}[{1}, {1}]) {{\n  %w = constant {{value = {0}[{1}, {1}] random 1}}\n"
      "  %y = matmul(%x, %w)\n  return %y as \"y\"\n}}",
      type, side);
}

double product_flops(double side) {
  return 2 * side * side * side;
}

}  // namespace

Expected<Target> calibrated(const Target& target, int threads) {
  const int cores = threads > 0 ? threads : target.cores;
  Target result = target;
  // Of a kernel that all threads share, what is left when its work is taken away.
  constexpr std::int64_t kLittle = 1 << 15;
  OPWELD_TRY(const double little, best_seconds(copy_text(kLittle), target, cores));
  OPWELD_TRY(const double twice, best_seconds(copy_text(2 * kLittle), target, cores));
  result.launch_seconds = std::max(0.0, 2 * little - twice);

  constexpr std::int64_t kFar = 16 << 20;
  constexpr double kBytesOfElement = 2 * 4;  // read and written
  OPWELD_TRY(const double far, best_seconds(copy_text(kFar), target, cores));
  result.bandwidth = kFar * kBytesOfElement / (far - result.launch_seconds);

  // A quarter of a cache in all: the rest is others'.
  const std::int64_t near_elements =
      target.l2_bytes / 4 / static_cast<std::int64_t>(kBytesOfElement) * cores;
  OPWELD_TRY(const double near, best_seconds(copy_text(near_elements), target, cores));
  result.cache_bandwidth =
      static_cast<double>(near_elements) * kBytesOfElement / (near - result.launch_seconds) / cores;

  constexpr std::int64_t kSide = 512;
  OPWELD_TRY(const double product, best_seconds(product_text("f32", kSide), target, cores));
  result.peak_flops = product_flops(kSide) / product / cores / kReachedOfFlops;
  if (target.has_amx_bf16) {
    constexpr std::int64_t kMatrixSide = 1024;
    OPWELD_TRY(const double tiles, best_seconds(product_text("bf16", kMatrixSide), target, cores));
    result.matrix_flops = product_flops(kMatrixSide) / tiles / cores / kReachedOfMatrixFlops;
  }
  return result;
}

}  // namespace opweld
