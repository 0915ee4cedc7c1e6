#include "fusion/groups.h"

#include <algorithm>
#include <set>

#include "ops/stored_weights.h"

namespace opweld {

bool Group::only_aliases() const {
  return std::all_of(nodes.begin(), nodes.end(), [](const Node* node) { return is_alias(*node); });
}

Kernel kernel_of(const Group& group, int id) {
  Kernel kernel;
  kernel.id = id;
  kernel.kind = group.only_views ? KernelKind::Move : group.kind;
  kernel.nodes = group.nodes;
  complete_kernel(kernel);
  return kernel;
}

Groups::Groups(const Graph& graph) {
  int position = 0;
  std::vector<Node*> prologues;  // whose matmuls come behind them
  for (const auto& node : graph.nodes()) {
    if (node->op() == "constant") continue;
    if (is_weight_prologue(*node)) {
      positions_[node.get()] = position++;
      prologues.push_back(node.get());
      continue;
    }
    auto group = std::make_unique<Group>();
    group->id = position;
    group->kind = kind_of(*node);
    group->nodes = {node.get()};
    group->only_views = is_strided_view(*node);
    by_node_[node.get()] = group.get();
    positions_[node.get()] = position++;
    groups_.push_back(std::move(group));
  }
  for (Node* node : prologues) {
    Group* const reader = by_node_.at(node->result()->uses().front().node);
    reader->nodes.insert(reader->nodes.begin(), node);
    by_node_[node] = reader;
  }
}

std::vector<Node*> Groups::union_of(const Group& a, const Group& b) const {
  std::vector<Node*> nodes;
  std::merge(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(),
             std::back_inserter(nodes),
             [&](const Node* left, const Node* right) { return position(left) < position(right); });
  return nodes;
}

void Groups::merge(Group& producer, Group& consumer, KernelKind kind) {
  consumer.nodes = union_of(producer, consumer);
  consumer.kind = kind;
  consumer.only_views = consumer.only_views && producer.only_views;
  for (const Node* node : producer.nodes) by_node_[node] = &consumer;
  producer.nodes.clear();
}

bool Groups::merge_makes_cycle(const Group& producer, const Group& consumer) const {
  // Nothing that stands behind the consumer's last node can lead back into it.
  const int last = position(consumer.nodes.back());
  std::vector<const Group*> pending = {&producer};
  std::set<const Group*> seen = {&producer};
  while (!pending.empty()) {
    const Group* group = pending.back();
    pending.pop_back();
    for (const Node* node : group->nodes) {
      for (int i = 0; i < node->num_results(); ++i) {
        for (const Use& use : node->result(i)->uses()) {
          const Group* reader = by_node_.at(use.node);
          if (reader == &consumer) {
            if (group != &producer) return true;
            continue;
          }
          if (position(reader->nodes.front()) > last) continue;
          if (seen.insert(reader).second) pending.push_back(reader);
        }
      }
    }
  }
  return false;
}

std::vector<Group*> Groups::in_order() {
  // Kahn's algorithm, taking the group with the earliest node first so that the order is stable.
  std::map<const Group*, std::set<const Group*>> waits_for;
  std::map<const Group*, std::set<Group*>> unblocks;
  for (const auto& [node, group] : by_node_) {
    waits_for.try_emplace(group);
    for (const Value* operand : node->operands()) {
      if (operand == nullptr || operand->producer() == nullptr) continue;
      const auto found = by_node_.find(operand->producer());
      if (found == by_node_.end() || found->second == group) continue;
      waits_for[group].insert(found->second);
      unblocks[found->second].insert(group);
    }
  }
  const auto earlier = [&](const Group* a, const Group* b) {
    return position(a->nodes.front()) < position(b->nodes.front());
  };
  std::set<Group*, decltype(earlier)> ready(earlier);
  for (const auto& group : groups_) {
    if (!group->nodes.empty() && waits_for[group.get()].empty()) ready.insert(group.get());
  }
  std::vector<Group*> order;
  while (!ready.empty()) {
    Group* group = *ready.begin();
    ready.erase(ready.begin());
    order.push_back(group);
    for (Group* reader : unblocks[group]) {
      auto& left = waits_for[reader];
      left.erase(group);
      if (left.empty()) ready.insert(reader);
    }
  }
  return order;
}

}  // namespace opweld
