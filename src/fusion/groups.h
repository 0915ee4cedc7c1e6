// The partition of a graph's nodes while it is being planned.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
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
  bool only_maps = false;    // strided views and concats alone
  bool is_asked = true;      // a schedule serves it, or it is a single node (foreseen.h)

  [[nodiscard]] bool only_aliases() const;
  [[nodiscard]] IndexMaps index_maps() const;
};

// The kind of the kernel that would hold both; absent when no schedule does.
std::optional<KernelKind> kind_together(const Group& producer, const Group& consumer);

class Groups {
 public:
  // One group for each node but constants.
  explicit Groups(const Graph& graph);

  [[nodiscard]] Group* group_of(const Node* node) { return place_of(node).group; }
  [[nodiscard]] bool has(const Node* node) const {
    const auto id = static_cast<std::size_t>(node->id());
    return id < places_.size() && places_[id].group != nullptr;
  }
  [[nodiscard]] int position(const Node* node) const { return place_of(node).position; }

  // Nodes of both in topological order.
  [[nodiscard]] std::vector<Node*> union_of(const Group& a, const Group& b) const;
  // The consumer takes over the producer's nodes.
  void merge(Group& producer, Group& consumer, KernelKind kind);
  // The same where the union of their nodes has been found.
  void merge(Group& producer, Group& consumer, KernelKind kind, std::vector<Node*> nodes);
  // Every node of these groups in one of its own again.
  void dissolve(std::span<Group* const> groups);
  // The same nodes grouped as they were when the groups were copied.
  void restore(std::span<const Group> groups);

  // Whether some path leads from the producer out through a third group into the consumer; merged,
  // the two would wait for that group and it for them. Looks from both ends in turn, so that it
  // takes no longer than the end behind which there is less.
  [[nodiscard]] bool merge_makes_cycle(const Group& producer, const Group& consumer) const;

  // Whether a node of the one reads a result of the other.
  [[nodiscard]] bool feeds(const Group& producer, const Group& consumer) const;

  // Groups in an order in which each comes after all it reads.
  [[nodiscard]] std::vector<Group*> in_order();

 private:
  struct Place {
    int position = 0;        // of the node in the graph
    Group* group = nullptr;  // where it is now; none: it is a constant
    Group* own = nullptr;    // the one that began with it; none: it is a weight prologue
  };

  [[nodiscard]] const Place& place_of(const Node* node) const {
    return places_[static_cast<std::size_t>(node->id())];
  }
  [[nodiscard]] Place& place_of(const Node* node) {
    return places_[static_cast<std::size_t>(node->id())];
  }

  // The node, and what goes with it, becomes all of the group.
  void begin(Group& group, Node& node);

  // The groups that read what the group makes, and those that make what it reads.
  template <typename Visit>
  void for_each_reader(const Group& group, const Visit& visit) const;
  template <typename Visit>
  void for_each_source(const Group& group, const Visit& visit) const;

  // One for each node that is no weight prologue, for good; empty while its node is in another's.
  std::vector<std::unique_ptr<Group>> groups_;
  std::map<const Node*, std::vector<Node*>> prologues_;  // by the matmul that they go with
  std::vector<Place> places_;                            // by the node's id
  // By Group::id, the last search for a cycle that came by from either end: two numbers a search.
  mutable std::vector<std::uint64_t> reached_;
  mutable std::uint64_t searches_ = 0;
};

// The group as a kernel of its own: kind, nodes and what crosses its edge. What a reader sees of
// it, names and scope, is for complete_kernel() to find out.
Kernel kernel_of(const Group& group);

}  // namespace opweld
