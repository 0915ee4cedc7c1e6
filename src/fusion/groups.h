// The partition of a graph's nodes while it is being planned.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "fusion/kernel_kind.h"
#include "fusion/plan.h"

namespace opweld {

struct Group {
  int id = 0;  // the position of the node that it began with
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
  // Every node of these groups in one of its own again.
  void dissolve(std::span<Group* const> groups);
  // The same nodes grouped as they were when the groups were copied.
  void restore(std::span<const Group> groups);

  // Whether some path leads from the producer out through a third group into the consumer; merged,
  // the two would wait for that group and it for them.
  [[nodiscard]] bool merge_makes_cycle(const Group& producer, const Group& consumer) const;

  // Whether a node of the one reads a result of the other.
  [[nodiscard]] bool feeds(const Group& producer, const Group& consumer) const;

  // Groups in an order in which each comes after all it reads.
  [[nodiscard]] std::vector<Group*> in_order();

 private:
  // The node, and what goes with it, becomes all of the group.
  void begin(Group& group, Node& node);

  // One for each node that is no weight prologue, for good; empty while its node is in another's.
  std::vector<std::unique_ptr<Group>> groups_;
  std::map<const Node*, Group*> own_;                    // of those, by the node that it is for
  std::map<const Node*, std::vector<Node*>> prologues_;  // by the matmul that they go with
  std::map<const Node*, Group*> by_node_;                // where each node is now
  std::map<const Node*, int> positions_;
};

// The group as a complete kernel of its own.
Kernel kernel_of(const Group& group, int id = 0);

}  // namespace opweld
