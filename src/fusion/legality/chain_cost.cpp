// Whether a chain's tasks have rows enough to go through all weights, each for itself.
//
// Kernels apart share the weights out among cores. Tasks of a chain that own their rows read all of
// them, and multiply by a weight as often as they have rows: with too few, they wait. Both times
// overlap, the better the further apart they are. Measured on two cores (feed-forwards with rows
// fixed, --chains-of-any-rows and --without=chain taking turns, as in the bench suite `chain`), a
// chain takes, where multiplying takes
//
//     1.1 times as long as fetching (2048 and 5632 wide, 32 rows a task):   1.12 to 1.18
//     1.5 times (768 and 3072, 32 rows):                                     1.03 to 1.06
//     2.1 times (2048 and 5632, 64 rows):                                    1.00 to 1.04
//     3 times or more (768 and 3072, 64 rows; either, 128 rows; whole layers
//     of 384 and 1536 without their attention, 64 to 128 rows):              0.97 to 1.04
//
// times what the kernels apart do. What a chain spares, a launch and the way of what lies between
// to a cache and back, is worth little where multiplying is dear. So the rule is on the safe side:
//
//     rows * multiply seconds of a row >= kCover * weight bytes / bandwidth of a core
//
// which is linear in the rows of a task: a limit for known sizes, a plan's condition for others.
//
// Of experts a task reads the weights that its rows chose. Rows stand expert after expert, so that
// with E experts, of which each token chooses k, and T tokens for each of C cores a weight meets
// k T C / E rows, or the k T of a task where there are more cores than experts. Tokens of a core
// are what tasks of other chains have as rows, so that plans for few and for many go by one number.
//
// It is not asked of matmuls that kernels apart could not share out either: with as few columns as
// a router of a mixture of experts has, one task goes through all weights in any case.
#include <algorithm>
#include <cmath>

#include "fusion/boundary.h"
#include "fusion/cost.h"
#include "fusion/legality/legality.h"
#include "ops/op.h"
#include "ops/stored_weights.h"

namespace opweld {

namespace {

constexpr double kCover = 4;

// An unknown size may be any; that of a sequence is 1 for most of the time that text is generated.
constexpr std::int64_t kSmallest = 1;
// More rows than any task has.
constexpr std::int64_t kMany = std::int64_t{1} << 16;

// Of one task, in seconds.
struct TaskTimes {
  double weights = 0;   // to fetch all of them, or those of an expert
  double each_row = 0;  // to compute
  double met = 1;       // rows that meet a weight, for each row that the rule goes by
  double most = 0;      // rows that a task may have

  [[nodiscard]] double least_rows() const { return std::max(1.0, std::ceil(least_met() / met)); }
  // Whether any number of rows is enough.
  [[nodiscard]] bool may_pay() const { return least_met() <= most; }

 private:
  [[nodiscard]] double least_met() const { return std::ceil(kCover * weights / each_row); }
};

// Rows of a task at the sizes that the plan is for.
double rows_of_plan(const Dim& rows, const PlanOptions& options) {
  return std::max(nominal_value(rows, kSmallest),
                  std::min(nominal_value(rows, kMany), options.rows_granted));
}

// Whether the task has rows enough; where that depends on how many are granted, it is told.
bool has_enough(const Dim& rows, const TaskTimes& times, const PlanOptions& options) {
  if (!times.may_pay()) return false;
  const double least = times.least_rows();
  const bool is_granted = rows_of_plan(rows, options) >= least;
  const bool always = nominal_value(rows, kSmallest) >= least;
  const bool when_larger = nominal_value(rows, kMany) >= least;
  if (when_larger && !always && options.on_rows_asked) {
    options.on_rows_asked(static_cast<std::int64_t>(least), is_granted);
  }
  return is_granted;
}

Kernel kernel_alone(Node& matmul) {
  Kernel kernel;
  kernel.kind = KernelKind::Contract;
  for (const Value* operand : matmul.operands()) {
    Node* const made_by = operand == nullptr ? nullptr : operand->producer();
    if (made_by != nullptr && is_weight_prologue(*made_by)) kernel.nodes.push_back(made_by);
  }
  kernel.nodes.push_back(&matmul);
  find_boundary(kernel);
  return kernel;
}

// Whether the chain has a single matmul, which by itself and of one row would be a single task.
bool has_no_weights_to_share_out(const Kernel& chain, const PlanOptions& options) {
  Node* matmul = nullptr;
  for (Node* node : chain.nodes) {
    const FusionTrait trait = op_def(*node).trait;
    if (trait == FusionTrait::Attention) return false;
    if (trait != FusionTrait::Contract) continue;
    if (matmul != nullptr) return false;
    matmul = node;
  }
  if (matmul == nullptr) return false;
  const auto alone = options.oracle(kernel_alone(*matmul));
  return alone && nominal_value(alone->pressure.tasks, kSmallest) <= 1;
}

// Rows that meet a weight, for each token of a core; 1 where a chain has no experts.
double rows_met(const Kernel& chain, const Target& target) {
  for (const Node* node : chain.nodes) {
    if (node->op() != "grouped_matmul") continue;
    const Node* const lookup = node->operand(0)->producer();
    const bool looks_up = lookup != nullptr && lookup->op() == "gather";
    const Dim& rows = node->operand(0)->shape()[0];
    const Dim choices = looks_up ? floor_div(rows, lookup->operand(0)->shape()[0]) : Dim(1);
    const auto chosen = static_cast<double>(choices.constant().value_or(1));
    const auto experts = node->operand(1)->shape()[0].constant();
    return chosen * std::min(1.0, static_cast<double>(target.cores) /
                                      static_cast<double>(std::max<std::int64_t>(
                                          1, experts.value_or(target.cores))));
  }
  return 1;
}

// Absent where nothing is known of the kernel, or nothing is computed, or it does not matter.
std::optional<TaskTimes> times_of(const Kernel& kernel, const KernelEstimate& estimate,
                                  const PlanOptions& options) {
  const Target& target = *options.target;
  if (options.chains_of_any_rows || has_no_weights_to_share_out(kernel, options)) {
    return std::nullopt;
  }
  // Where there are rows for every core, tasks differ in nothing but how many rows they have.
  const Bindings sizes = kernel_bindings(kernel, kMany);
  const auto work = estimate.work(sizes);
  const auto rows = estimate.pressure.rows_per_task.evaluate(sizes);
  if (!work || !rows || *rows <= 0 || work->tasks <= 0) return std::nullopt;
  const auto cost = kernel_cost(kernel, *work, target, sizes);
  if (!cost || cost->compute_seconds <= 0) return std::nullopt;
  const double rounds = std::ceil(work->tasks / target.cores);
  return TaskTimes{weight_seconds(*work, options.model_weight_bytes, target) / rounds,
                   cost->compute_seconds / rounds / static_cast<double>(*rows),
                   rows_met(kernel, target), nominal_value(estimate.pressure.rows_per_task, kMany)};
}

}  // namespace

Legality check_chain_cost(const MergeCandidate& candidate, const KernelEstimate& kernel,
                          const PlanOptions& options) {
  if (candidate.merged.kind != KernelKind::Chain) return std::nullopt;
  if (kernel.pressure.rows_per_task == Dim(0)) return std::nullopt;
  const auto times = times_of(candidate.merged, kernel, options);
  if (!times) return std::nullopt;
  const Dim& asked = kernel.pressure.rows_per_weight;
  if (has_enough(asked, *times, options)) return std::nullopt;
  const double rows = rows_of_plan(asked, options);
  const bool when_larger = times->may_pay() && nominal_value(asked, kMany) >= times->least_rows();
  constexpr double kMicro = 1e6;
  return Refusal{
      ReasonCode::Cost,
      fmt::format(
          "each task would go through all weights, {:.0f} us, and with {}{:.0f} rows multiply "
          "for {:.0f} us; {:.0f} rows pay{}",
          times->weights * kMicro, when_larger ? "as few as " : "", rows,
          rows * times->met * times->each_row * kMicro, times->least_rows(),
          when_larger ? "; where there are as many, another plan is run" : ""),
      when_larger};
}

bool has_rows_that_pay(const Kernel& chain, const KernelEstimate& estimate,
                       const PlanOptions& options) {
  const Dim& rows = estimate.pressure.rows_per_weight;
  if (rows == Dim(0)) return true;
  const auto times = times_of(chain, estimate, options);
  return !times || has_enough(rows, *times, options);
}

std::optional<SizeCondition> rows_asked_for(const Kernel& kernel, const KernelEstimate& estimate,
                                            const PlanOptions& options) {
  const Dim& rows = estimate.pressure.rows_per_weight;
  if (rows.is_constant()) return std::nullopt;
  const auto times = times_of(kernel, estimate, options);
  if (!times) return std::nullopt;
  return SizeCondition{rows, static_cast<std::int64_t>(times->least_rows()),
                       "rows of a task of " + kernel.name};
}

}  // namespace opweld
