#include "fusion/statistics.h"

#include <algorithm>

#include "fusion/group_cost.h"

namespace opweld {

namespace {

// Unknown sizes are those that the plan is for: nominal ones; but where larger ones have a plan of
// their own, in which the two are a chain, it is the smallest that are left: those that give as
// many rows as the plan was granted. Of a plan for any that is 1, as it is for most of the time
// that text is generated.
PlanOptions at_sizes_of_plan(const PlanOptions& options, const Merging& merging, const Edge& edge) {
  PlanOptions judged = options;
  const auto refusal = merging.refusals().find(edge);
  const bool is_for_small =
      refusal != merging.refusals().end() && refusal->second.allowed_when_larger;
  if (!is_for_small) return judged;
  const double smallest = std::max(1.0, options.rows_granted * options.target->cores);
  const auto nominal = static_cast<double>(options.nominal_size);
  judged.nominal_size = static_cast<std::int64_t>(std::min(smallest, nominal));
  return judged;
}

// By the kernel model, as far as it tells two kernels from one: what tasks do besides is little
// beside their products, and of one kernel there is less to launch and to move.
bool takes_no_longer(const Group& matmul, const Group& reductions, const Groups& groups,
                     const PlanOptions& options) {
  constexpr double kMargin = 0.02;
  Group together = matmul;
  together.nodes = groups.union_of(matmul, reductions);
  const double apart =
      group_cost(matmul, options).seconds + group_cost(reductions, options).seconds;
  return group_cost(together, options).seconds <= apart * (1 + kMargin);
}

// Whether the node's kernel, of reductions alone, went into that of the matmul whose result the
// node reads.
bool merge_into_matmul(const Node& node, const PlanOptions& options, Merging& merging) {
  Groups& groups = merging.groups();
  Group& reductions = *groups.group_of(&node);
  if (reductions.kind != KernelKind::Row) return false;
  for (const Value* operand : node.operands()) {
    if (operand == nullptr || operand->producer() == nullptr) continue;
    if (!groups.has(operand->producer())) continue;
    Group& matmul = *groups.group_of(operand->producer());
    if (matmul.kind != KernelKind::Contract) continue;
    const PlanOptions judged = at_sizes_of_plan(options, merging, {operand->producer(), &node});
    if (!takes_no_longer(matmul, reductions, groups, judged)) continue;
    if (merging.merge_statistics(matmul, reductions, operand)) return true;
  }
  return false;
}

}  // namespace

int merge_statistics(const Graph& graph, const PlanOptions& options, Merging& merging) {
  int merged = 0;
  for (const Node* node : graph.nodes_in_order()) {
    if (merging.groups().has(node) && merge_into_matmul(*node, options, merging)) ++merged;
  }
  return merged;
}

}  // namespace opweld
