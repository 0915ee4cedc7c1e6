#include "model_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "ops/reference.h"
#include "runtime/compare.h"
#include "target/target.h"

namespace opweld {

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

// What is judged of an output beside the rewriting: nothing, all within the tolerance, or, in
// strict numerics, fused against unfused to the bit.
enum class Judged : std::uint8_t { Rewriting, Tolerance, Bits };

double part_of_tolerance(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance) {
  double largest = 0;
  for (std::int64_t i = 0; i < actual.num_elements(); ++i) {
    const double a = actual.get_double(i);
    const double b = expected.get_double(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double part = std::abs(a - b) / (tolerance.absolute + tolerance.relative * std::abs(b));
    largest = std::max(largest, std::isnan(part) ? std::numeric_limits<double>::infinity() : part);
  }
  return largest;
}

OutputVerdict judge(const OutputRuns& runs, Judged judged) {
  const Tolerance tolerance = default_tolerance(runs.fused.dtype());
  const Comparison rewriting = compare(runs.rewritten, runs.reference, tolerance);
  const Comparison to_reference = compare(runs.fused, runs.reference, tolerance);
  const Comparison to_unfused =
      compare(runs.fused, runs.unfused, judged == Judged::Bits ? Tolerance{} : tolerance);
  OutputVerdict verdict{runs.name,
                        to_unfused.largest_difference,
                        to_reference.largest_difference,
                        part_of_tolerance(runs.fused, runs.reference, tolerance),
                        {}};
  if (!rewriting.equal) {
    verdict.fault = fmt::format("the rewritten graph, against the model: {}", rewriting.message);
  } else if (judged == Judged::Tolerance && !to_reference.equal) {
    verdict.fault = fmt::format("against the reference: {}", to_reference.message);
  } else if (judged != Judged::Rewriting && !to_unfused.equal) {
    verdict.fault = fmt::format("against the unfused run: {}", to_unfused.message);
  }
  return verdict;
}

Expected<LaunchVerdict> judge_launch(Executable& executable, std::span<const Tensor> inputs,
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

std::string describe_fault(const ModelCheck& check) {
  if (!check.custom.first_fault.empty()) return "custom operator " + check.custom.first_fault;
  const auto has_fault = [](const auto& verdict) { return !verdict.fault.empty(); };
  const auto output = std::ranges::find_if(check.outputs, has_fault);
  const auto kernel = std::ranges::find_if(check.kernels, has_fault);
  std::string text = "a kernel differs from its operators";
  if (output != check.outputs.end()) {
    text = fmt::format("output '{}', {}", output->name, output->fault);
  }
  if (kernel != check.kernels.end()) {
    return fmt::format("{}\n  first at {} ({}), {}", text, kernel->kernel, kernel->operators,
                       kernel->fault);
  }
  if (output == check.outputs.end()) return check.launch ? check.launch->fault : std::string();
  return text + "\n  every kernel is right on the inputs it had";
}

}  // namespace

int ModelCheck::kernels_that_differ() const {
  return static_cast<int>(
      std::ranges::count_if(kernels, [](const auto& each) { return !each.fault.empty(); }));
}

Expected<ModelCheck> check_model(const Graph& graph, Compiled& fused, Compiled& unfused,
                                 const CheckOptions& options, std::span<const Tensor> inputs) {
  OPWELD_TRY(const Target target, find_target(options.target));
  OPWELD_TRY(CheckedRun of_fused, check_kernels(fused, target, options.strict, inputs));
  CheckedRun of_unfused;
  if (options.strict) {
    OPWELD_TRY(of_unfused, check_kernels(unfused, target, options.strict, inputs));
  } else {
    OPWELD_TRY(of_unfused.outputs, unfused.executable.run(inputs));
  }
  OPWELD_TRY(const Outputs rewritten, evaluate(fused.executable.graph(), inputs, kInF64));
  OPWELD_TRY(const Outputs reference, evaluate(graph, inputs, kInF64));

  const Judged judged = options.strict     ? Judged::Bits
                        : is_smooth(graph) ? Judged::Tolerance
                                           : Judged::Rewriting;
  ModelCheck check;
  bool same = true;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    check.outputs.push_back(judge({graph.outputs()[i].name, of_fused.outputs[i],
                                   of_unfused.outputs[i], rewritten[i], reference[i]},
                                  judged));
    same = same && compare(of_fused.outputs[i], of_unfused.outputs[i], Tolerance{}).equal;
  }
  check.kernels = std::move(options.strict && same ? of_unfused.kernels : of_fused.kernels);
  if (options.single_launch) {
    OPWELD_TRY(check.launch, judge_launch(fused.executable, inputs, of_fused.outputs));
  }
  OPWELD_TRY(check.custom, check_custom_operators(graph, inputs));
  check.fault = describe_fault(check);
  return check;
}

}  // namespace opweld
