// opweld report: a page with what was fused, what was not and why, and what each kernel costs.
#include <filesystem>

#include "compiler/session.h"
#include "compiler/subcommands.h"
#include "model_page.h"

namespace opweld::cli {

namespace {

struct ReportCommand : ReportArguments {
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

Status report_model(const ReportArguments& arguments) {
  return ReportCommand{arguments}();
}

}  // namespace opweld::cli
