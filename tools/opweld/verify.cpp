// opweld verify: fused against unfused against the reference in f64.
#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "commands.h"
#include "custom_check.h"
#include "kernel_check.h"
#include "ops/reference.h"
#include "runtime/compare.h"
#include "session.h"
#include "target/target.h"

namespace opweld::cli {

namespace {

using namespace std::string_view_literals;

using Outputs = std::vector<Tensor>;

const ReferenceOptions kInF64{.in_f64 = true, .constants_as_stored = true, .observer = {}};

bool is_half(const Value& value) {
  return value.dtype() == DType::F16 || value.dtype() == DType::BF16;
}

// A float becomes a whole number: 6.9999999 and 7 are one apart.
bool steps(const Node& node) {
  constexpr std::array kRoundings = {"floor"sv, "ceil"sv, "round"sv};
  const auto is_whole = [](const Value& value) {
    return !is_float(value.dtype()) && value.dtype() != DType::Bool;
  };
  const bool reads_float = std::ranges::any_of(node.operands(), [](const Value* operand) {
    return operand != nullptr && is_float(operand->dtype()) && operand->producer() != nullptr &&
           operand->producer()->op() != "constant";
  });
  if (!reads_float) return false;
  return is_whole(*node.result(node.num_results() - 1)) ||
         std::ranges::find(kRoundings, node.op()) != kRoundings.end();
}

// Whether the tolerances, which are those of one kernel, hold for the whole model: halves round at
// every kernel, and that adds up; and where floats become whole numbers, a difference in the last
// place may become one of 1.
bool is_smooth(const Graph& graph) {
  return std::ranges::none_of(graph.nodes(), [](const auto& node) {
    bool has_halves = false;
    for (int i = 0; i < node->num_results(); ++i) has_halves |= is_half(*node->result(i));
    return has_halves || steps(*node);
  });
}

// One output of the model as four evaluations give it.
struct OutputRuns {
  std::string name;
  const Tensor& fused;
  const Tensor& unfused;
  const Tensor& rewritten;  // the rewritten graph in f64
  const Tensor& reference;  // the model in f64
};

struct Verdict {
  std::string name;
  double to_unfused = 0;  // largest differences
  double to_reference = 0;
  std::string fault;  // empty: they agree
};

// What is judged of an output beside the rewriting: nothing, all within the tolerance, or, in
// strict numerics, fused against unfused to the bit.
enum class Judged : std::uint8_t { Rewriting, Tolerance, Bits };

Verdict judge(const OutputRuns& runs, Judged judged) {
  const Tolerance tolerance = default_tolerance(runs.fused.dtype());
  const Comparison rewriting = compare(runs.rewritten, runs.reference, tolerance);
  const Comparison to_reference = compare(runs.fused, runs.reference, tolerance);
  const Comparison to_unfused =
      compare(runs.fused, runs.unfused, judged == Judged::Bits ? Tolerance{} : tolerance);
  Verdict verdict{runs.name, to_unfused.largest_difference, to_reference.largest_difference, {}};
  if (!rewriting.equal) {
    verdict.fault = fmt::format("the rewritten graph, against the model: {}", rewriting.message);
  } else if (judged == Judged::Tolerance && !to_reference.equal) {
    verdict.fault = fmt::format("against the reference: {}", to_reference.message);
  } else if (judged != Judged::Rewriting && !to_unfused.equal) {
    verdict.fault = fmt::format("against the unfused run: {}", to_unfused.message);
  }
  return verdict;
}

// The outputs of a run in one launch, against those of kernels one after another.
struct LaunchVerdict {
  RunStats stats;
  std::string fault;  // empty: the same to the bit
};

Expected<LaunchVerdict> judge_launch(Executable& executable, const Outputs& inputs,
                                     const Outputs& apart) {
  LaunchVerdict verdict;
  RunOptions options;
  options.single_launch = true;
  OPWELD_TRY(const Outputs together, executable.run(inputs, &verdict.stats, options));
  for (std::size_t i = 0; i < apart.size(); ++i) {
    if (identical(together[i], apart[i])) continue;
    verdict.fault = fmt::format("output '{}', in one launch: not the bits of kernels run apart",
                                executable.graph().outputs()[i].name);
    break;
  }
  return verdict;
}

// What differs first, and where; empty when all agrees.
std::string describe_fault(std::span<const Verdict> verdicts, const KernelCheck& kernels,
                           const std::optional<LaunchVerdict>& launch, const CustomCheck& custom) {
  if (!custom.first_fault.empty()) return "custom operator " + custom.first_fault;
  const auto faulty = std::find_if(verdicts.begin(), verdicts.end(),
                                   [](const Verdict& verdict) { return !verdict.fault.empty(); });
  std::string text = "a kernel differs from its operators";
  if (faulty != verdicts.end()) text = fmt::format("output '{}', {}", faulty->name, faulty->fault);
  if (!kernels.first_fault().empty()) return text + "\n  first at " + kernels.first_fault();
  if (faulty == verdicts.end()) return launch ? launch->fault : std::string();
  return text + "\n  every kernel is right on the inputs it had";
}

nlohmann::ordered_json to_json(std::span<const Verdict> verdicts, const KernelCheck& kernels,
                               const std::optional<LaunchVerdict>& launch,
                               const CustomCheck& custom, const std::string& fault) {
  nlohmann::ordered_json report = {{"outputs", nlohmann::ordered_json::array()}};
  for (const Verdict& verdict : verdicts) {
    report["outputs"].push_back({{"name", verdict.name},
                                 {"difference_to_unfused", verdict.to_unfused},
                                 {"difference_to_reference", verdict.to_reference},
                                 {"equal", verdict.fault.empty()}});
  }
  report["kernels"] = {{"checked", kernels.checked()}, {"differ", kernels.differ()}};
  if (launch) {
    report["single_launch"] = {{"kernels", launch->stats.kernels},
                               {"launches", launch->stats.launches},
                               {"barriers", launch->stats.barriers},
                               {"identical", launch->fault.empty()}};
  }
  if (custom.compared > 0) {
    report["custom_operators"] = {{"compared", custom.compared}, {"differ", custom.differ}};
  }
  report["equal"] = fault.empty();
  if (!kernels.first_fault().empty()) report["first_difference"] = kernels.first_fault();
  return report;
}

void print(std::span<const Verdict> verdicts, const KernelCheck& kernels,
           const std::optional<LaunchVerdict>& launch, const CustomCheck& custom) {
  for (const Verdict& verdict : verdicts) {
    fmt::print("{}: largest difference to unfused {:.3g}, to the reference {:.3g}{}\n",
               verdict.name, verdict.to_unfused, verdict.to_reference,
               verdict.fault.empty() ? "" : "  DIFFERS");
  }
  fmt::print("{}\n", kernels.summary());
  if (custom.compared > 0) {
    fmt::print("{} custom operator{} compared with what {} declare{}: {}\n", custom.compared,
               custom.compared == 1 ? "" : "s", custom.compared == 1 ? "it" : "they",
               custom.compared == 1 ? "s" : "",
               custom.differ == 0 ? "the same values" : fmt::format("{} DIFFER", custom.differ));
  }
  if (!launch) return;
  fmt::print("{} kernels in {} launch{} with {} barriers: {}\n", launch->stats.kernels,
             launch->stats.launches, launch->stats.launches == 1 ? "" : "es",
             launch->stats.barriers, launch->fault.empty() ? "the same bits" : "DIFFERS");
}

struct VerifyCommand {
  ModelOptions model;
  InputOptions inputs;

  // What has to agree: the rewritten graph with the model, both in f64; each kernel with its
  // operators in f64, on the inputs that the kernel had; where tolerances hold for the whole, the
  // outputs from end to end; and, where one is asked for, a single launch with kernels run apart,
  // to the bit; and the code of a custom operator with its expression or body. In strict numerics
  // fused results must be the bits of unfused ones; where they are, it is the unfused kernels, an
  // operator each, that are held to their operators.
  Status operator()() const {
    OPWELD_TRY(const Graph graph, load_model(model));
    OPWELD_TRY(const FusionLevel level, parse_level(model.fusion));
    OPWELD_TRY(const Target target, find_target(model.target));
    OPWELD_TRY(const Outputs tensors, find_inputs(graph, model, inputs));
    OPWELD_TRY(Compiled fused, compile_model(graph, model, level, keeping_constants(), tensors));
    OPWELD_TRY(const Bindings sizes, bind_symbols(fused.executable.graph(), tensors));
    OPWELD_CHECK(check_requirements(fused, model, sizes));
    ModelOptions untuned = model;
    untuned.tune = false;
    OPWELD_TRY(Compiled unfused,
               compile_model(graph, untuned, FusionLevel::None, keeping_constants()));
    const bool strict = model.numerics == "strict";
    KernelCheck of_fused(target, strict);
    KernelCheck of_unfused(target, strict);
    OPWELD_TRY(const Outputs fused_outputs, of_fused.run(fused, tensors));
    OPWELD_TRY(const Outputs unfused_outputs,
               strict ? of_unfused.run(unfused, tensors) : unfused.executable.run(tensors));
    OPWELD_TRY(const Outputs rewritten, evaluate(fused.executable.graph(), tensors, kInF64));
    OPWELD_TRY(const Outputs reference, evaluate(graph, tensors, kInF64));

    const Judged judged = strict             ? Judged::Bits
                          : is_smooth(graph) ? Judged::Tolerance
                                             : Judged::Rewriting;
    std::vector<Verdict> verdicts;
    verdicts.reserve(reference.size());
    bool same = true;
    for (std::size_t i = 0; i < reference.size(); ++i) {
      verdicts.push_back(judge({graph.outputs()[i].name, fused_outputs[i], unfused_outputs[i],
                                rewritten[i], reference[i]},
                               judged));
      same = same && compare(fused_outputs[i], unfused_outputs[i], Tolerance{}).equal;
    }
    const KernelCheck& kernels = strict && same ? of_unfused : of_fused;
    std::optional<LaunchVerdict> launch;
    if (model.single_launch) {
      OPWELD_TRY(launch, judge_launch(fused.executable, tensors, fused_outputs));
    }
    OPWELD_TRY(const CustomCheck custom, check_custom_operators(graph, tensors));
    const std::string fault = describe_fault(verdicts, kernels, launch, custom);
    if (model.json) {
      fmt::print("{}\n", to_json(verdicts, kernels, launch, custom, fault).dump());
    } else {
      print(verdicts, kernels, launch, custom);
    }
    if (!fault.empty()) return fail("{}", fault);
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

Command add_verify(CLI::App& app) {
  auto command = std::make_shared<VerifyCommand>();
  add_model_options(app, command->model);
  add_input_options(app, command->inputs);
  return [command] { return (*command)(); };
}

}  // namespace opweld::cli
