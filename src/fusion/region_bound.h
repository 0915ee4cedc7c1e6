// The least that kernels of some nodes must move, whatever the nodes are grouped into.
//
// Search (search.h) takes pairs of kernels apart to find groups that move less. What the nodes read
// and write beyond their edge, they read and write in any grouping, at least once; and where the
// ends of an edge go into two kernels, these stand on two sides of a cut: nothing leads back from
// the reader's side, each value that crosses is written and read, and what both sides read from
// elsewhere is read twice. The cheapest such cut is a minimum cut of a flow network (Ford and
// Fulkerson 1956; an operand that several nodes share as in Lawler 1973, "Cutsets and partitions of
// hypergraphs"). So a cut that cannot win is known before any kernel is made.
//
// Seconds are those of the kernel model (cost.h) for moving bytes and launching, at the best rates:
// the bound is never above what kernel_cost() says of a grouping.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "fusion/planner.h"

namespace opweld {

// Whether any kernel that holds the node has several tasks, so that launching it takes time.
bool has_many_tasks(const Node& node, const PlanOptions& options);

class RegionBound {
 public:
  RegionBound(const std::vector<Node*>& nodes, const PlanOptions& options);

  // Of all groupings into one kernel or more.
  [[nodiscard]] double together() const { return edge_seconds_ + launch_seconds(1); }
  // Of all groupings in which no kernel holds both ends of an edge between two of the nodes. Stops
  // counting where it is more than `enough`.
  [[nodiscard]] double apart(const Node* producer, const Node* consumer, double enough) const;

 private:
  // Of the flow network. The reverse of arc i is i ^ 1; what flows on one is room on the other.
  struct Arc {
    int to;
    double room;  // in seconds
  };

  void add_internal(const Value& value);
  void add_shared(const Value& value, std::span<Node* const> nodes);
  // What of the value a kernel with these readers, or with some of them, reads at the least.
  [[nodiscard]] double read_bytes(const Value& value, bool all_readers) const;
  [[nodiscard]] double bytes_of(const Value& value) const;
  [[nodiscard]] double move_seconds(double bytes, bool from_memory) const;
  [[nodiscard]] double launch_seconds(int kernels) const;
  int add_vertex();
  void connect(int from, int to, double room);

  const PlanOptions& options_;
  std::unordered_map<const Node*, int> vertices_;
  std::vector<Arc> arcs_;
  std::vector<std::vector<int>> leaving_;  // arcs by vertex
  double edge_seconds_ = 0;
  int may_be_one_task_ = 0;  // nodes whose kernel might have a single task, which nobody waits for
};

}  // namespace opweld
