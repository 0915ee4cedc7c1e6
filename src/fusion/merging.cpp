#include "fusion/merging.h"

#include "fusion/boundary.h"
#include "fusion/cost.h"
#include "fusion/foreseen.h"

namespace opweld {

void Merging::join_producers(Node& node, const Scope& scope) {
  for (const Value* operand : node.operands()) {
    if (operand == nullptr || operand->producer() == nullptr) continue;
    const Node* producer = operand->producer();
    if (!groups_.has(producer) || groups_.group_of(producer) == groups_.group_of(&node)) continue;
    if (scope.among != nullptr && !scope.among->contains(producer)) continue;
    if (scope.apart != nullptr && scope.apart->contains({producer, &node})) continue;
    const std::vector<Node*> joining = groups_.group_of(producer)->nodes;
    Group& from = *groups_.group_of(producer);
    Group& to = *groups_.group_of(&node);
    if (!scope.is_trial) flops_added_[{producer, &node}] = opweld::flops_added(from, to);
    if (auto refusal = try_merge(from, to, operand, scope.asking)) {
      if (!scope.is_trial) refusals_[{producer, &node}] = std::move(*refusal);
      continue;
    }
    // A view that would not join its operand's producer by itself (a slice of a matmul's result,
    // while another slice is read elsewhere) may do so with its reader.
    for (Node* view : joining) {
      if (is_strided_view(*view)) join_producers(*view, scope);
    }
  }
}

Legality Merging::try_merge(Group& producer, Group& consumer, const Value* value, Asking asking) {
  if (Legality refusal = check_groups(producer, consumer)) return refusal;
  return check_and_merge(producer, consumer, value, *kind_together(producer, consumer), asking);
}

bool Merging::may_be_siblings(const Group& first, const Group& second) const {
  if (first.kind != second.kind || check_groups(first, second)) return false;
  // Whichever comes first might feed the other on some way around; edges between them would have
  // been tried before.
  if (groups_.feeds(first, second) || groups_.feeds(second, first)) return false;
  return !groups_.merge_makes_cycle(first, second) && !groups_.merge_makes_cycle(second, first);
}

bool Merging::merge_siblings(Group& first, Group& second, const Value* value) {
  return !check_and_merge(first, second, value, first.kind, Asking::Always);
}

bool Merging::merge_statistics(Group& matmul, Group& reductions, const Value* value) {
  return !check_groups(matmul, reductions) &&
         !check_and_merge(matmul, reductions, value, KernelKind::Contract, Asking::Always);
}

const Kernel& Merging::merged(const Group& producer, const Group& consumer, KernelKind kind) {
  constexpr std::size_t kMostRemembered = 4096;
  if (merged_.size() >= kMostRemembered) merged_.clear();
  NodeKey key;
  key.reserve(producer.nodes.size() + consumer.nodes.size() + 2);
  key.push_back(static_cast<std::uintptr_t>(kind));
  append_to(key, producer.nodes);
  key.push_back(0);
  append_to(key, consumer.nodes);
  const auto [known, is_new] = merged_.try_emplace(std::move(key));
  Kernel& kernel = known->second;
  if (is_new) {
    kernel.kind = kind;
    kernel.nodes = groups_.union_of(producer, consumer);
    find_boundary(kernel);
  }
  return kernel;
}

Legality Merging::check_and_merge(Group& producer, Group& consumer, const Value* value,
                                  KernelKind kind, Asking asking) {
  const MergeCandidate candidate{groups_, producer, consumer, value,
                                 merged(producer, consumer, kind)};
  if (const auto loss = estimate_loss(candidate, options_)) {
    return Refusal{ReasonCode::Cost,
                   fmt::format("saves {:.0f} bytes, computes {:.0f} more operations",
                               loss->bytes_saved, loss->flops_added)};
  }
  if (Legality refusal = check_candidate(candidate, options_)) return refusal;
  const bool asks = asking == Asking::Always ||
                    (asking == Asking::OfChains && kind == KernelKind::Chain) ||
                    (asking == Asking::Unforeseen && !is_foreseen(candidate, options_));
  if (asks) {
    if (Legality refusal = check_kernel(candidate, options_)) return refusal;
  }
  groups_.merge(producer, consumer, kind, candidate.merged.nodes);
  consumer.is_asked = asks;
  return std::nullopt;
}

void Merging::begin_anew() {
  groups_.dissolve(groups_.in_order());
  refusals_.clear();
  flops_added_.clear();
}

}  // namespace opweld
