// The partition of a graph's nodes while it is being planned.
#pragma once

#include <map>
#include <vector>

#include "fusion/kernel_kind.h"
#include "fusion/plan.h"

namespace opweld {

struct Group {
  int id = 0;
  KernelKind kind = KernelKind::Map;
  std::vector<Node*> nodes;  // in topological order
  bool only_views = false;   // strided views alone

  [[nodiscard]] bool only_aliases() const;
};

class Groups {
 public:
  // One group for each node but constants.
  explicit Groups(const Graph& graph);

  [[nodiscard]] Group* group_of(const Node* node) { return by_node_.at(node); }
  [[nodiscard]] bool has(const Node* node) const { return by_node_.contains(node); }
  [[nodiscard]] int position(const Node* node) const { return positions_.at(node); }

  // Nodes of both in topological order.
  [[nodiscard]] std::vector<Node*> union_of(const Group& a, const Group& b) const;
  // The consumer takes over the producer's nodes.
  void merge(Group& producer, Group& consumer, KernelKind kind);

  // Whether some path leads from the producer out through a third group into the consumer; merged,
  // the two would wait for that group and it for them.
  [[nodiscard]] bool merge_makes_cycle(const Group& producer, const Group& consumer) const;

  // Groups in an order in which each comes after all it reads.
  [[nodiscard]] std::vector<Group*> in_order();

 private:
  std::vector<std::unique_ptr<Group>> groups_;
  std::map<const Node*, Group*> by_node_;
  std::map<const Node*, int> positions_;
};

// The group as a complete kernel of its own.
Kernel kernel_of(const Group& group, int id = 0);

}  // namespace opweld
