#include "fusion/groups.h"

#include <algorithm>
#include <set>

#include "fusion/boundary.h"
#include "ops/op.h"
#include "ops/stored_weights.h"

namespace opweld {

bool Group::only_aliases() const {
  return std::all_of(nodes.begin(), nodes.end(), [](const Node* node) { return is_alias(*node); });
}

namespace {

bool looks_up_rows_of_matrix(const Node& node) {
  return node.op() == "gather" && node.attributes().integer("axis") == 0 &&
         node.operand(0)->rank() == 2 && node.operand(1)->rank() == 1;
}

// What is made of the numbers of rows is as little as they are.
bool makes_row_numbers(const Node& node) {
  const Value& result = *node.result();
  return result.rank() <= 1 && is_integer(result.dtype()) &&
         (op_def(node).trait == FusionTrait::Pointwise || is_strided_view(node));
}

// Whether the producer looks up the rows that the consumer's matmul multiplies, and nothing else: a
// matmul that packs its rows reads each where it lies.
bool looks_up_rows_for(const Group& producer, const Group& consumer) {
  const Node* lookup = nullptr;
  for (const Node* node : producer.nodes) {
    if (lookup == nullptr && looks_up_rows_of_matrix(*node)) {
      lookup = node;
    } else if (!makes_row_numbers(*node)) {
      return false;
    }
  }
  if (lookup == nullptr || lookup->result()->is_graph_output()) return false;
  const auto& uses = lookup->result()->uses();
  return std::ranges::all_of(uses, [&](const Use& use) {
    return op_def(*use.node).trait == FusionTrait::Contract && use.index == 0 &&
           std::ranges::find(consumer.nodes, use.node) != consumer.nodes.end();
  });
}

// Whether the producer sorts the rows that the consumer's experts multiply, and nothing else: each
// thread can do that for itself.
bool sorts_rows_for(const Group& producer, const Group& consumer) {
  const Node* sort = nullptr;
  for (const Node* node : producer.nodes) {
    if (node->op() == "sort_by_group") {
      sort = node;
    } else if (!makes_row_numbers(*node)) {
      return false;
    }
  }
  return sort != nullptr && std::ranges::any_of(consumer.nodes, [&](const Node* node) {
           return node->op() == "grouped_matmul" && node->operand(2) == sort->result(2);
         });
}

}  // namespace

std::optional<KernelKind> kind_together(const Group& producer, const Group& consumer) {
  const bool is_product =
      consumer.kind == KernelKind::Contract || consumer.kind == KernelKind::Chain;
  if (is_product && sorts_rows_for(producer, consumer)) return consumer.kind;
  const bool looks_up_rows =
      consumer.kind == KernelKind::Contract && looks_up_rows_for(producer, consumer);
  return merged_kind(producer.kind, consumer.kind,
                     looks_up_rows ? IndexMaps::Strided : producer.index_maps());
}

IndexMaps Group::index_maps() const {
  if (only_views) return IndexMaps::Strided;
  return only_maps ? IndexMaps::Joining : IndexMaps::None;
}

Kernel kernel_of(const Group& group) {
  Kernel kernel;
  kernel.kind = group.only_views ? KernelKind::Move : group.kind;
  kernel.nodes = group.nodes;
  find_boundary(kernel);
  return kernel;
}

Groups::Groups(const Graph& graph) {
  int position = 0;
  std::vector<Node*> prologues;  // whose matmuls come behind them
  for (const auto& node : graph.nodes()) {
    const auto id = static_cast<std::size_t>(node->id());
    if (id >= places_.size()) places_.resize(id + 1);
    if (node->op() == "constant") continue;
    Place& place = places_[id];
    place.position = position;
    if (is_weight_prologue(*node)) {
      prologues.push_back(node.get());
    } else {
      groups_.push_back(std::make_unique<Group>());
      place.own = groups_.back().get();
      place.own->id = position;
      begin(*place.own, *node);
    }
    ++position;
  }
  for (Node* node : prologues) {
    Node* const reader = node->result()->uses().front().node;
    prologues_[reader].push_back(node);
    begin(*place_of(reader).own, *reader);
  }
  reached_.resize(static_cast<std::size_t>(position));
}

void Groups::begin(Group& group, Node& node) {
  group.nodes.clear();
  if (const auto before = prologues_.find(&node); before != prologues_.end()) {
    group.nodes = before->second;
  }
  group.nodes.push_back(&node);
  group.kind = kind_of(node);
  group.only_views = is_strided_view(node);
  group.only_maps = group.only_views || node.op() == "concat";
  group.is_asked = true;
  for (const Node* each : group.nodes) place_of(each).group = &group;
}

void Groups::dissolve(std::span<Group* const> groups) {
  std::vector<Node*> nodes;
  for (const Group* group : groups) {
    nodes.insert(nodes.end(), group->nodes.begin(), group->nodes.end());
  }
  for (Node* node : nodes) {
    if (Group* const own = place_of(node).own) begin(*own, *node);
  }
}

void Groups::restore(std::span<const Group> groups) {
  for (const Group& copy : groups) {
    for (const Node* node : copy.nodes) {
      if (Group* const own = place_of(node).own) own->nodes.clear();
    }
  }
  for (const Group& copy : groups) {
    Group& group = *place_of(copy.nodes.back()).own;
    const int id = group.id;
    group = copy;
    group.id = id;
    for (const Node* node : copy.nodes) place_of(node).group = &group;
  }
}

std::vector<Node*> Groups::union_of(const Group& a, const Group& b) const {
  std::vector<Node*> nodes;
  nodes.reserve(a.nodes.size() + b.nodes.size());
  std::merge(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(),
             std::back_inserter(nodes),
             [&](const Node* left, const Node* right) { return position(left) < position(right); });
  return nodes;
}

void Groups::merge(Group& producer, Group& consumer, KernelKind kind) {
  merge(producer, consumer, kind, union_of(producer, consumer));
}

void Groups::merge(Group& producer, Group& consumer, KernelKind kind, std::vector<Node*> nodes) {
  consumer.nodes = std::move(nodes);
  consumer.kind = kind;
  consumer.only_views = consumer.only_views && producer.only_views;
  consumer.only_maps = consumer.only_maps && producer.only_maps;
  for (const Node* node : producer.nodes) place_of(node).group = &consumer;
  producer.nodes.clear();
}

template <typename Visit>
void Groups::for_each_reader(const Group& group, const Visit& visit) const {
  for (const Node* node : group.nodes) {
    for (int i = 0; i < node->num_results(); ++i) {
      for (const Use& use : node->result(i)->uses()) {
        const Group* const reader = place_of(use.node).group;
        if (reader != &group) visit(*reader);
      }
    }
  }
}

template <typename Visit>
void Groups::for_each_source(const Group& group, const Visit& visit) const {
  for (const Node* node : group.nodes) {
    for (const Value* operand : node->operands()) {
      const Node* const made_by = operand == nullptr ? nullptr : operand->producer();
      if (made_by == nullptr || !has(made_by)) continue;
      const Group* const source = place_of(made_by).group;
      if (source != &group) visit(*source);
    }
  }
}

bool Groups::merge_makes_cycle(const Group& producer, const Group& consumer) const {
  const std::uint64_t ahead = ++searches_;
  const std::uint64_t behind = ++searches_;
  // Positions of nodes are no bounds: what comes behind the consumer's last node may lead into a
  // group that began before it.
  std::vector<const Group*> forwards;
  std::vector<const Group*> backwards;
  bool met = false;
  const auto reach = [&](const Group& group, std::uint64_t mine, std::uint64_t other,
                         std::vector<const Group*>& pending) {
    if (&group == &producer || &group == &consumer) return;
    std::uint64_t& mark = reached_[static_cast<std::size_t>(group.id)];
    if (mark == mine) return;
    met = met || mark == other;
    mark = mine;
    pending.push_back(&group);
  };
  const auto step_forwards = [&](const Group& group) {
    for_each_reader(group, [&](const Group& reader) { reach(reader, ahead, behind, forwards); });
  };
  const auto step_backwards = [&](const Group& group) {
    for_each_source(group, [&](const Group& source) { reach(source, behind, ahead, backwards); });
  };
  step_forwards(producer);
  step_backwards(consumer);
  while (!met && !forwards.empty() && !backwards.empty()) {
    const bool ahead_is_less = forwards.size() <= backwards.size();
    std::vector<const Group*>& pending = ahead_is_less ? forwards : backwards;
    const Group* const group = pending.back();
    pending.pop_back();
    if (ahead_is_less) {
      step_forwards(*group);
    } else {
      step_backwards(*group);
    }
  }
  return met;
}

bool Groups::feeds(const Group& producer, const Group& consumer) const {
  bool found = false;
  for_each_source(consumer, [&](const Group& source) { found = found || &source == &producer; });
  return found;
}

std::vector<Group*> Groups::in_order() {
  // Kahn's algorithm, taking the group with the earliest node first so that the order is stable.
  struct Waiting {
    int sources = 0;               // that are yet to come, once for each time that they are read
    std::vector<Group*> unblocks;  // likewise
  };
  std::vector<Waiting> waiting(reached_.size());
  const auto earlier = [&](const Group* a, const Group* b) {
    return position(a->nodes.front()) < position(b->nodes.front());
  };
  std::set<Group*, decltype(earlier)> ready(earlier);
  for (const auto& group : groups_) {
    if (group->nodes.empty()) continue;
    for_each_source(*group, [&](const Group& source) {
      ++waiting[static_cast<std::size_t>(group->id)].sources;
      waiting[static_cast<std::size_t>(source.id)].unblocks.push_back(group.get());
    });
    if (waiting[static_cast<std::size_t>(group->id)].sources == 0) ready.insert(group.get());
  }
  std::vector<Group*> order;
  while (!ready.empty()) {
    Group* group = *ready.begin();
    ready.erase(ready.begin());
    order.push_back(group);
    for (Group* reader : waiting[static_cast<std::size_t>(group->id)].unblocks) {
      if (--waiting[static_cast<std::size_t>(reader->id)].sources == 0) ready.insert(reader);
    }
  }
  return order;
}

}  // namespace opweld
