// opweld verify: fused against unfused against the reference in f64.
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "ops/reference.h"
#include "runtime/compare.h"
#include "session.h"

namespace opweld::cli {

namespace {

using Outputs = std::vector<Tensor>;

struct VerifyCommand {
  ModelOptions model;
  InputOptions inputs;

  Status operator()() const {
    OPWELD_TRY(const Graph graph, load_graph(model.model));
    OPWELD_TRY(const FusionLevel level, parse_level(model.fusion));
    OPWELD_TRY(const Outputs tensors, find_inputs(graph, model, inputs));
    OPWELD_TRY(Compiled fused, compile_model(graph, model, level, keeping_constants()));
    OPWELD_TRY(Compiled unfused, compile_model(graph, model, FusionLevel::None));
    OPWELD_TRY(const Outputs fused_outputs, fused.executable.run(tensors));
    OPWELD_TRY(const Outputs unfused_outputs, unfused.executable.run(tensors));
    OPWELD_TRY(const Outputs reference, evaluate(graph, tensors, {.in_f64 = true, .observer = {}}));
    nlohmann::ordered_json report = {{"outputs", nlohmann::ordered_json::array()}};
    std::string fault;
    const bool strict = model.numerics == "strict";
    for (std::size_t i = 0; i < reference.size(); ++i) {
      const Tolerance tolerance = default_tolerance(fused_outputs[i].dtype());
      const std::string& name = graph.outputs()[i].name;
      const Comparison to_unfused =
          compare(fused_outputs[i], unfused_outputs[i], strict ? Tolerance{} : tolerance);
      const Comparison to_reference = compare(fused_outputs[i], reference[i], tolerance);
      const bool equal = to_unfused.equal && to_reference.equal;
      if (!model.json) {
        fmt::print("{}: largest difference to unfused {:.3g}, to the reference {:.3g}{}\n", name,
                   to_unfused.largest_difference, to_reference.largest_difference,
                   equal ? "" : "  DIFFERS");
      }
      report["outputs"].push_back({{"name", name},
                                   {"difference_to_unfused", to_unfused.largest_difference},
                                   {"difference_to_reference", to_reference.largest_difference},
                                   {"equal", equal}});
      if (fault.empty() && !to_reference.equal) {
        fault = fmt::format("output '{}', against the reference: {}", name, to_reference.message);
      }
      if (fault.empty() && !to_unfused.equal) {
        fault = fmt::format("output '{}', against the unfused run: {}", name, to_unfused.message);
      }
    }
    report["equal"] = fault.empty();
    std::string where;
    if (!fault.empty()) {
      OPWELD_TRY(where, first_difference(fused.executable, tensors));
      report["first_difference"] = where;
    }
    if (model.json) fmt::print("{}\n", report.dump());
    if (!fault.empty()) return fail("{}{}", fault, where);
    return {};
  }

 private:
  // The graph that was compiled is evaluated again where results differ.
  static CompileOptions keeping_constants() {
    CompileOptions options;
    options.keep_constants = true;
    return options;
  }

  // The kernel at which the fused run first leaves the reference, with the operators in it.
  static Expected<std::string> first_difference(Executable& executable, const Outputs& tensors) {
    std::map<const Value*, Tensor> expected;
    ReferenceOptions reference{.in_f64 = true, .observer = {}};
    reference.observer = [&](const Node& node, std::span<const Tensor> results) {
      for (int i = 0; i < node.num_results(); ++i) {
        expected[node.result(i)] = results[static_cast<std::size_t>(i)];
      }
    };
    OPWELD_TRY(const auto ignored, evaluate(executable.graph(), tensors, reference));
    static_cast<void>(ignored);
    std::string found;
    RunOptions options;
    options.observer = [&](const Kernel& kernel, std::span<const Tensor> outputs) {
      for (std::size_t i = 0; i < outputs.size() && found.empty(); ++i) {
        const auto wanted = expected.find(kernel.outputs[i]);
        if (wanted == expected.end()) continue;
        const Comparison comparison =
            compare(outputs[i], wanted->second, default_tolerance(outputs[i].dtype()));
        if (!comparison.equal) {
          found = fmt::format("\n  first at {} ({}), node '{}': {}", kernel.name, kernel.label,
                              kernel.outputs[i]->producer()->display_name(), comparison.message);
        }
      }
    };
    OPWELD_TRY(const auto outputs, executable.run(tensors, nullptr, options));
    static_cast<void>(outputs);
    return found;
  }
};

}  // namespace

Command add_verify(CLI::App& app) {
  auto command = std::make_shared<VerifyCommand>();
  add_model_options(app, command->model);
  add_input_options(app, command->inputs);
  return [command] { return (*command)(); };
}

}  // namespace opweld::cli
