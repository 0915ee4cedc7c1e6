#include "fusion/group_cost.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fusion/cost.h"
#include "fusion/legality/legality.h"
#include "fusion/region_bound.h"

namespace opweld {

double least_moving_seconds(const Group& group, const PlanOptions& options) {
  return group.only_aliases() ? 0 : least_moving_seconds(kernel_of(group), options);
}

double least_moving_seconds(const Kernel& kernel, const PlanOptions& options) {
  const Bindings nominal = kernel_bindings(kernel, options.nominal_size);
  const auto cost = kernel_cost(kernel, {}, *options.target, nominal);
  if (!cost) return 0;
  const bool is_launched = std::ranges::all_of(
      kernel.nodes, [&](const Node* node) { return has_many_tasks(*node, options); });
  return cost->memory_seconds + (is_launched ? options.target->launch_seconds : 0);
}

GroupCost group_cost(const Group& group, const PlanOptions& options) {
  return group.only_aliases() ? GroupCost() : group_cost(kernel_of(group), options);
}

GroupCost group_cost(const Kernel& kernel, const PlanOptions& options) {
  constexpr GroupCost kImpossible = {HUGE_VAL, HUGE_VAL};
  const auto estimate = options.oracle(kernel);
  if (!estimate) return kImpossible;
  const Bindings nominal = kernel_bindings(kernel, options.nominal_size);
  const auto work = estimate->work(nominal);
  if (!work) return kImpossible;
  const auto cost = kernel_cost(kernel, *work, *options.target, nominal);
  if (!cost) return kImpossible;
  return {cost->seconds(), cost->memory_seconds + cost->launch_seconds};
}

bool may_be_made(const Group& group, const PlanOptions& options) {
  return group.only_aliases() || may_be_made(kernel_of(group), options);
}

bool may_be_made(const Kernel& kernel, const PlanOptions& options) {
  const auto estimate = options.oracle(kernel);
  if (!estimate || !fits_on_chip(estimate->pressure, options)) return false;
  if (kernel.kind != KernelKind::Chain) return true;
  return keeps_cores_busy(estimate->pressure, options) &&
         has_rows_that_pay(kernel, *estimate, options);
}

GroupCosts::Known& GroupCosts::known(const Group& group) {
  NodeKey key;
  key.reserve(group.nodes.size() + 1);
  key.push_back(static_cast<std::uintptr_t>(group.kind));
  append_to(key, group.nodes);
  return known_[std::move(key)];
}

GroupCost GroupCosts::cost(const Group& group) {
  std::optional<GroupCost>& cost = known(group).cost;
  if (!cost) cost = group_cost(group, options_);
  return *cost;
}

double GroupCosts::least_moving_seconds(const Group& group) {
  std::optional<double>& seconds = known(group).least_moving_seconds;
  if (!seconds) seconds = opweld::least_moving_seconds(group, options_);
  return *seconds;
}

bool GroupCosts::may_be_made(const Group& group) {
  std::optional<bool>& answer = known(group).may_be_made;
  if (!answer) answer = opweld::may_be_made(group, options_);
  return *answer;
}

}  // namespace opweld
