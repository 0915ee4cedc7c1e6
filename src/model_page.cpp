#include "model_page.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <vector>

#include "ops/reference.h"
#include "report/page.h"
#include "report/page_template.h"
#include "target/target.h"

namespace opweld {

namespace {

constexpr int kWarmups = 2;

struct Level {
  FusionLevel level;
  Compiled compiled;
  double seconds = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// They take turns, so that a slow moment of the machine falls on all of them.
Status time_levels(std::vector<Level>& levels, std::span<const Tensor> inputs, int repeats) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::vector<double>> times(levels.size());
  for (int i = 0; i < kWarmups + repeats; ++i) {
    for (std::size_t at = 0; at < levels.size(); ++at) {
      const Clock::time_point start = Clock::now();
      OPWELD_TRY(const auto outputs, levels[at].compiled.executable.run(inputs));
      const std::chrono::duration<double> elapsed = Clock::now() - start;
      if (i >= kWarmups) times[at].push_back(elapsed.count());
    }
  }
  for (std::size_t at = 0; at < levels.size(); ++at) levels[at].seconds = median(times[at]);
  return {};
}

// The median of each kernel, in their order.
Expected<std::vector<double>> time_kernels(Executable& executable, std::span<const Tensor> inputs,
                                           int repeats) {
  RunOptions options;
  options.profile = true;
  std::vector<std::vector<double>> times;
  for (int i = 0; i < repeats; ++i) {
    RunStats stats;
    OPWELD_TRY(const auto outputs, executable.run(inputs, &stats, options));
    times.resize(stats.by_kernel.size());
    for (std::size_t at = 0; at < times.size(); ++at) {
      times[at].push_back(stats.by_kernel[at].seconds);
    }
  }
  std::vector<double> medians;
  medians.reserve(times.size());
  for (const std::vector<double>& each : times) medians.push_back(median(each));
  return medians;
}

Expected<LevelTraffic> traffic_of(const Level& level, const Bindings& sizes) {
  const FusionPlan& plan = level.compiled.executable.plan(sizes);
  LevelTraffic traffic;
  traffic.level = level.level;
  traffic.median_seconds = level.seconds;
  OPWELD_TRY(traffic.total, total_traffic(plan, sizes));
  OPWELD_TRY(traffic.layers, layer_traffic(plan, sizes));
  return traffic;
}

}  // namespace

Expected<std::string> model_page_json(const Graph& graph, const CompileLevel& compile_level,
                                      const PageOptions& options, std::span<const Tensor> inputs) {
  std::vector<Level> levels;
  for (const FusionLevel level : {FusionLevel::None, FusionLevel::Ops, FusionLevel::Auto}) {
    OPWELD_TRY(Compiled compiled, compile_level(level));
    levels.push_back({level, std::move(compiled)});
  }
  Level& shown = *std::ranges::find(levels, options.level, &Level::level);
  PageContent content;
  content.version = OPWELD_VERSION;
  content.model = options.model;
  content.imported = &graph;
  content.executable = &shown.compiled.executable;
  content.notes = shown.compiled.notes;
  OPWELD_TRY(content.sizes, bind_symbols(shown.compiled.executable.graph(), inputs));
  OPWELD_TRY(content.target, find_target(options.target));
  if (options.repeats > 0) {
    content.repeats = options.repeats;
    OPWELD_CHECK(time_levels(levels, inputs, options.repeats));
    OPWELD_TRY(content.kernel_seconds,
               time_kernels(shown.compiled.executable, inputs, options.repeats));
  }
  for (const Level& each : levels) {
    OPWELD_TRY(LevelTraffic traffic, traffic_of(each, content.sizes));
    content.levels.push_back(std::move(traffic));
  }
  return page_json(content);
}

Status check_page_template() {
  if (!page_template().empty()) return {};
  return fail(
      "Opweld was built without the page of its reports; './dev build' makes the page and compiles "
      "it in");
}

Expected<std::size_t> write_page(const std::string& json, const std::string& path) {
  OPWELD_CHECK(check_page_template());
  OPWELD_TRY(const std::string page, render_page(page_template(), json));
  std::ofstream out(path, std::ios::binary);
  out << page;
  if (!out.flush()) return fail("cannot write '{}'", path);
  return page.size();
}

}  // namespace opweld
