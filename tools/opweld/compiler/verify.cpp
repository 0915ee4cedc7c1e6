// opweld verify: fused against unfused against the reference in f64.
#include <nlohmann/json.hpp>

#include "compiler/session.h"
#include "compiler/subcommands.h"
#include "model_check.h"
#include "ops/reference.h"

namespace opweld::cli {

namespace {

nlohmann::ordered_json to_json(const ModelCheck& check) {
  nlohmann::ordered_json report = {{"outputs", nlohmann::ordered_json::array()}};
  for (const OutputVerdict& verdict : check.outputs) {
    report["outputs"].push_back({{"name", verdict.name},
                                 {"difference_to_unfused", verdict.to_unfused},
                                 {"difference_to_reference", verdict.to_reference},
                                 {"equal", verdict.fault.empty()}});
  }
  report["kernels"] = {{"checked", check.kernels.size()}, {"differ", check.kernels_that_differ()}};
  if (const auto& launch = check.launch) {
    report["single_launch"] = {{"kernels", launch->stats.kernels},
                               {"launches", launch->stats.launches},
                               {"barriers", launch->stats.barriers},
                               {"identical", launch->fault.empty()}};
  }
  if (check.custom.compared > 0) {
    report["custom_operators"] = {{"compared", check.custom.compared},
                                  {"differ", check.custom.differ}};
  }
  report["equal"] = check.fault.empty();
  for (const KernelVerdict& kernel : check.kernels) {
    if (kernel.fault.empty()) continue;
    report["first_difference"] =
        fmt::format("{} ({}), {}", kernel.kernel, kernel.operators, kernel.fault);
    break;
  }
  return report;
}

void print(const ModelCheck& check) {
  for (const OutputVerdict& verdict : check.outputs) {
    fmt::print("{}: largest difference to unfused {:.3g}, to the reference {:.3g}{}\n",
               verdict.name, verdict.to_unfused, verdict.to_reference,
               verdict.fault.empty() ? "" : "  DIFFERS");
  }
  fmt::print("kernels: {} checked one by one on the inputs they had, {} differ\n",
             check.kernels.size(), check.kernels_that_differ());
  if (const CustomCheck& custom = check.custom; custom.compared > 0) {
    fmt::print("{} custom operator{} compared with what {} declare{}: {}\n", custom.compared,
               custom.compared == 1 ? "" : "s", custom.compared == 1 ? "it" : "they",
               custom.compared == 1 ? "s" : "",
               custom.differ == 0 ? "the same values" : fmt::format("{} DIFFER", custom.differ));
  }
  if (!check.launch) return;
  const RunStats& stats = check.launch->stats;
  fmt::print("{} kernels in {} launch{} with {} barriers: {}\n", stats.kernels, stats.launches,
             stats.launches == 1 ? "" : "es", stats.barriers,
             check.launch->fault.empty() ? "the same bits" : "DIFFERS");
}

struct VerifyCommand : VerifyArguments {
  Status operator()() const {
    OPWELD_TRY(const Graph graph, load_model(model));
    OPWELD_TRY(const FusionLevel level, parse_level(model.fusion));
    OPWELD_TRY(const std::vector<Tensor> tensors, find_inputs(graph, model, inputs));
    OPWELD_TRY(Compiled fused, compile_model(graph, model, level, keeping_constants(), tensors));
    OPWELD_TRY(const Bindings sizes, bind_symbols(fused.executable.graph(), tensors));
    OPWELD_CHECK(check_requirements(fused, model, sizes));
    ModelOptions untuned = model;
    untuned.tune = false;
    OPWELD_TRY(Compiled unfused,
               compile_model(graph, untuned, FusionLevel::None, keeping_constants()));
    OPWELD_TRY(
        const ModelCheck check,
        check_model(graph, fused, unfused,
                    {model.target, model.numerics == "strict", model.single_launch}, tensors));
    if (model.json) {
      fmt::print("{}\n",
                 to_json(check).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    } else {
      print(check);
    }
    if (!check.fault.empty()) return fail("{}", check.fault);
    return {};
  }

 private:
  // The graph that was compiled is evaluated again.
  static CompileOptions keeping_constants() {
    CompileOptions options;
    options.keep_constants = true;
    return options;
  }
};

}  // namespace

Status verify_model(const VerifyArguments& arguments) {
  return VerifyCommand{arguments}();
}

}  // namespace opweld::cli
