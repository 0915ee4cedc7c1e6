// opweld report: a page with what was fused, what was not and why, and what each kernel costs.
#include <filesystem>
#include <memory>

#include "commands.h"
#include "model_page.h"
#include "session.h"

namespace opweld::cli {

namespace {

struct ReportCommand {
  ModelOptions model;
  InputOptions inputs;
  std::string output = "report.html";
  bool no_measure = false;
  int repeats = 10;

  Status operator()() const {
    // Before anything that takes a while.
    if (!model.json) OPWELD_CHECK(check_page_template());
    if (model.single_launch) {
      return usage_error("report shows kernels one after another; leave out --single-launch");
    }
    OPWELD_TRY(const Graph graph, load_model(model));
    OPWELD_TRY(const std::vector<Tensor> tensors, find_inputs(graph, model, inputs));
    PageOptions options;
    options.model = std::filesystem::path(model.model).filename().string();
    OPWELD_TRY(options.level, parse_level(model.fusion));
    options.target = model.target;
    options.repeats = no_measure ? 0 : repeats;
    // Levels that are only there to be compared with are not tuned for.
    const auto compile_level = [&](FusionLevel level) {
      ModelOptions compiling = model;
      compiling.tune = model.tune && level == options.level;
      if (level != options.level) compiling.dump_after.clear();
      return compile_model(graph, compiling, level, {}, tensors);
    };
    OPWELD_TRY(const std::string json, model_page_json(graph, compile_level, options, tensors));
    if (model.json) {
      fmt::print("{}\n", json);
      return {};
    }
    OPWELD_TRY(const std::size_t bytes, write_page(json, output));
    fmt::print("{}: {:.1f} MB, opens in any browser without a network\n", output,
               static_cast<double>(bytes) / 1e6);
    return {};
  }
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
