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
    positions_[node.get()] = position;
    if (is_weight_prologue(*node)) {
      prologues.push_back(node.get());
    } else {
      auto group = std::make_unique<Group>();
      group->id = position;
      begin(*group, *node);
      own_[node.get()] = group.get();
      groups_.push_back(std::move(group));
    }
    ++position;
  }
  for (Node* node : prologues) {
    Node* const reader = node->result()->uses().front().node;
    prologues_[reader].push_back(node);
    begin(*own_.at(reader), *reader);
  }
}

void Groups::begin(Group& group, Node& node) {
  group.nodes.clear();
  if (const auto before = prologues_.find(&node); before != prologues_.end()) {
    group.nodes = before->second;
  }
  group.nodes.push_back(&node);
  group.kind = kind_of(node);
  group.only_views = is_strided_view(node);
  for (const Node* each : group.nodes) by_node_[each] = &group;
}

void Groups::dissolve(std::span<Group* const> groups) {
  std::vector<Node*> nodes;
  for (const Group* group : groups) {
    nodes.insert(nodes.end(), group->nodes.begin(), group->nodes.end());
  }
  for (Node* node : nodes) {
    if (const auto own = own_.find(node); own != own_.end()) begin(*own->second, *node);
  }
}

void Groups::restore(std::span<const Group> groups) {
  for (const Group& copy : groups) {
    for (const Node* node : copy.nodes) {
      if (const auto own = own_.find(node); own != own_.end()) own->second->nodes.clear();
    }
  }
  for (const Group& copy : groups) {
    Group& group = *own_.at(copy.nodes.back());
    const int id = group.id;
    group = copy;
    group.id = id;
    for (const Node* node : copy.nodes) by_node_[node] = &group;
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

bool Groups::feeds(const Group& producer, const Group& consumer) const {
  return std::ranges::any_of(consumer.nodes, [&](const Node* node) {
    return std::ranges::any_of(node->operands(), [&](const Value* operand) {
      const Node* made_by = operand == nullptr ? nullptr : operand->producer();
      const auto group = by_node_.find(made_by);
      return group != by_node_.end() && group->second == &producer;
    });
  });
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
