// Merging neighbours: the one step that planning is made of.
#pragma once

#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "fusion/legality/legality.h"
#include "fusion/node_key.h"

namespace opweld {

// From a node to one that reads a result of it.
using Edge = std::pair<const Node*, const Node*>;

class Merging {
 public:
  Merging(const Graph& graph, const PlanOptions& options) : options_(options), groups_(graph) {}

  [[nodiscard]] Groups& groups() { return groups_; }

  // Whether schedules are asked about every kernel on the way to a larger one, or about those of
  // which it is not foreseen that they are served (foreseen.h), or about chains alone, or are taken
  // to serve them all. Then it is for the caller to ask about what comes out.
  enum class Asking : std::uint8_t { Always, Unforeseen, OfChains, Never };

  // Which of a node's edges are tried, and how.
  struct Scope {
    const std::set<const Node*>* among = nullptr;  // only groups of these; null: of all nodes
    const std::set<Edge>* apart = nullptr;         // these are passed over
    Asking asking = Asking::Always;
    bool is_trial = false;  // of which nothing is remembered
  };

  // The node's group takes in the groups of its operands' producers, one after the other, as far as
  // the rules allow and it is not known to be slower.
  void join_producers(Node& node, const Scope& scope);

  // Whether nothing but their kernel may speak against it: they are of one kind, and neither feeds
  // the other on any way.
  [[nodiscard]] bool may_be_siblings(const Group& first, const Group& second) const;
  // Makes one of two such groups that both read the value; whether that could be done.
  bool merge_siblings(Group& first, Group& second, const Value* value);

  // Makes a kernel of a matmul and of reductions of its rows, which reads the value, one in which
  // the reductions are statistics of the matmul's rows; whether that could be done.
  bool merge_statistics(Group& matmul, Group& reductions, const Value* value);

  // Why the groups at the ends of an edge were not merged when they were last asked to.
  [[nodiscard]] const std::map<Edge, Refusal>& refusals() const { return refusals_; }
  // What merging them would compute more than once, as the two stood when they were last asked.
  [[nodiscard]] const std::map<Edge, Dim>& flops_added() const { return flops_added_; }
  // Every node in a group of its own again, and nothing known of any edge.
  void begin_anew();

  void set_refusal(const Edge& edge, Refusal refusal) { refusals_[edge] = std::move(refusal); }

 private:
  Legality try_merge(Group& producer, Group& consumer, const Value* value, Asking asking);
  // As the kernel of that kind that they would be.
  Legality check_and_merge(Group& producer, Group& consumer, const Value* value, KernelKind kind,
                           Asking asking);

  // What the two would be, with its boundary. Cuts of a region come to the same pairs again and
  // again, so that the last ones are remembered; good until the next call.
  const Kernel& merged(const Group& producer, const Group& consumer, KernelKind kind);

  const PlanOptions& options_;
  Groups groups_;
  std::unordered_map<NodeKey, Kernel, NodeKeyHash> merged_;
  std::map<Edge, Refusal> refusals_;
  std::map<Edge, Dim> flops_added_;
};

}  // namespace opweld
