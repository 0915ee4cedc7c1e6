// opweld report: a page with what was fused, what was not and why, and what each kernel costs.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>

#include "commands.h"
#include "ops/reference.h"
#include "page_template.h"
#include "report/page.h"
#include "session.h"

namespace opweld::cli {

namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct ReportCommand {
  ModelOptions model;
  InputOptions inputs;
  std::string output = "report.html";
  bool no_measure = false;
  int repeats = 10;

  Status operator()() const {
    // Before anything that takes a while.
    if (page_template().empty() && !model.json) {
      return fail(
          "this command was compiled without its page; './dev build' makes the page and "
          "compiles it in");
    }
    if (model.single_launch) {
      return usage_error("report shows kernels one after another; leave out --single-launch");
    }
    OPWELD_TRY(const Graph graph, load_model(model));
    OPWELD_TRY(const std::vector<Tensor> tensors, find_inputs(graph, model, inputs));
    OPWELD_TRY(std::vector<Level> levels, compile_levels(graph, tensors));
    Level& shown = *std::find_if(levels.begin(), levels.end(),
                                 [&](const Level& each) { return each.name == model.fusion; });
    PageContent content;
    content.version = OPWELD_VERSION;
    content.model = std::filesystem::path(model.model).filename().string();
    content.imported = &graph;
    content.executable = &shown.compiled.executable;
    content.notes = shown.compiled.notes;
    OPWELD_TRY(content.sizes, bind_symbols(shown.compiled.executable.graph(), tensors));
    OPWELD_TRY(content.target, find_target(model.target));
    if (!no_measure) {
      content.repeats = repeats;
      OPWELD_CHECK(time_levels(levels, tensors));
      OPWELD_TRY(content.kernel_seconds, time_kernels(shown.compiled.executable, tensors));
    }
    for (const Level& each : levels) {
      OPWELD_TRY(LevelTraffic traffic, traffic_of(each, content.sizes));
      content.levels.push_back(std::move(traffic));
    }
    OPWELD_TRY(const std::string json, page_json(content));
    if (model.json) {
      fmt::print("{}\n", json);
      return {};
    }
    return write_page(json);
  }

 private:
  struct Level {
    std::string name;
    FusionLevel level;
    Compiled compiled;
    double seconds = 0;
  };

  // Those that are only there to be compared with are not tuned for.
  Expected<std::vector<Level>> compile_levels(const Graph& graph,
                                              std::span<const Tensor> tensors) const {
    std::vector<Level> levels;
    for (const char* const name : {"none", "ops", "auto"}) {
      ModelOptions options = model;
      options.tune = model.tune && name == model.fusion;
      if (name != model.fusion) options.dump_after.clear();
      OPWELD_TRY(const FusionLevel level, parse_level(name));
      OPWELD_TRY(Compiled compiled, compile_model(graph, options, level, {}, tensors));
      levels.push_back({name, level, std::move(compiled)});
    }
    return levels;
  }

  // They take turns, so that a slow moment of the machine falls on all of them.
  Status time_levels(std::vector<Level>& levels, std::span<const Tensor> tensors) const {
    using Clock = std::chrono::steady_clock;
    std::vector<std::vector<double>> times(levels.size());
    for (int i = 0; i < kWarmups + repeats; ++i) {
      for (std::size_t at = 0; at < levels.size(); ++at) {
        const Clock::time_point start = Clock::now();
        OPWELD_TRY(const auto outputs, levels[at].compiled.executable.run(tensors));
        const std::chrono::duration<double> elapsed = Clock::now() - start;
        if (i >= kWarmups) times[at].push_back(elapsed.count());
      }
    }
    for (std::size_t at = 0; at < levels.size(); ++at) levels[at].seconds = median(times[at]);
    return {};
  }

  // The median of each kernel, in their order.
  Expected<std::vector<double>> time_kernels(Executable& executable,
                                             std::span<const Tensor> tensors) const {
    RunOptions options;
    options.profile = true;
    std::vector<std::vector<double>> times;
    for (int i = 0; i < repeats; ++i) {
      RunStats stats;
      OPWELD_TRY(const auto outputs, executable.run(tensors, &stats, options));
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

  static Expected<LevelTraffic> traffic_of(const Level& level, const Bindings& sizes) {
    const FusionPlan& plan = level.compiled.executable.plan(sizes);
    LevelTraffic traffic;
    traffic.level = level.level;
    traffic.median_seconds = level.seconds;
    OPWELD_TRY(traffic.total, total_traffic(plan, sizes));
    OPWELD_TRY(traffic.layers, layer_traffic(plan, sizes));
    return traffic;
  }

  Status write_page(const std::string& json) const {
    OPWELD_TRY(const std::string page, render_page(page_template(), json));
    std::ofstream out(output, std::ios::binary);
    out << page;
    if (!out.flush()) return fail("cannot write '{}'", output);
    fmt::print("{}: {:.1f} MB, opens in any browser without a network\n", output,
               static_cast<double>(page.size()) / 1e6);
    return {};
  }

  static constexpr int kWarmups = 2;
};

}  // namespace

Command add_report(CLI::App& app) {
  auto command = std::make_shared<ReportCommand>();
  add_model_options(app, command->model);
  add_input_options(app, command->inputs);
  app.add_option("-o,--output", command->output, "The page to write")->capture_default_str();
  app.add_flag("--no-measure", command->no_measure,
               "Run nothing: the page has no times and no roofline");
  app.add_option("--repeats", command->repeats, "Timed runs, of which the median is shown")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  return [command] { return (*command)(); };
}

}  // namespace opweld::cli
