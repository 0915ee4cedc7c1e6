#include "fusion/search.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "fusion/boundary.h"
#include "fusion/cost.h"
#include "fusion/structure.h"

namespace opweld {

namespace {

// Nodes of the two kernels together; beyond, there are too many ways to cut them.
constexpr std::size_t kMaxNodes = 48;
// Inner edges that may be kept apart, those nearest to the refused one.
constexpr std::size_t kMaxEdges = 6;
// With so few edges every choice is tried.
constexpr std::size_t kExactEdges = 3;
constexpr std::size_t kBeamWidth = 3;
constexpr int kBeamDepth = 2;
// How much less another cut must move: below this the model does not tell them apart.
constexpr double kMargin = 0.02;
// What one region changes may open another.
constexpr int kRounds = 2;

bool may_be_regrouped(ReasonCode code) {
  return code == ReasonCode::Domain || code == ReasonCode::Pressure || code == ReasonCode::Limit ||
         code == ReasonCode::Cycle || code == ReasonCode::Cost;
}

// The nodes of two kernels, and the ways to cut them.
class Region {
 public:
  Region(const PlanOptions& options, Merging& merging, Edge refused)
      : options_(options), merging_(merging), refused_(std::move(refused)) {
    Groups& groups = merging_.groups();
    Group& producer = *groups.group_of(refused_.first);
    Group& consumer = *groups.group_of(refused_.second);
    nodes_ = groups.union_of(producer, consumer);
    inside_.insert(nodes_.begin(), nodes_.end());
    before_ = {producer, consumer};
    for (const Group& group : before_) add(cost_before_, group_cost(group, options_));
    find_edges();
    remember_refusals();
  }

  [[nodiscard]] bool is_worth_a_look() const {
    return !edges_.empty() && std::isfinite(cost_before_.seconds);
  }

  // With the cut of the two kernels as it is, since what comes of it depends on that.
  Structures::Key key(Structures& structures) const {
    Kernel whole;
    whole.nodes = nodes_;
    find_boundary(whole);
    Structures::Key key = structures.key_of(whole);
    for (const Node* node : nodes_) {
      const auto& first = before_.front().nodes;
      key.push_back(std::find(first.begin(), first.end(), node) != first.end());
    }
    key.push_back(position(refused_.first));
    key.push_back(position(refused_.second));
    return key;
  }

  // Leaves the best cut in place; whether it is another than before.
  bool improve() {
    const Found best = edges_.size() <= kExactEdges ? best_of_all() : best_of_beam();
    if (!std::isfinite(best.cost.seconds)) {
      merging_.groups().restore(before_);
      for (const auto& [edge, refusal] : refusals_before_) merging_.set_refusal(edge, refusal);
      return false;
    }
    cut(best.apart);
    for (const Edge& edge : best.apart) {
      if (merging_.groups().group_of(edge.first) == merging_.groups().group_of(edge.second))
        continue;
      merging_.set_refusal(
          edge, Refusal{ReasonCode::Cost,
                        fmt::format("apart, {} goes with other kernels, which take {:.1f} us where "
                                    "they would take {:.1f} us otherwise",
                                    edge.first->display_name(), best.cost.seconds * 1e6,
                                    cost_before_.seconds * 1e6)});
    }
    return true;
  }

 private:
  using EdgeSet = std::set<Edge>;

  struct Found {
    GroupCost cost = {HUGE_VAL, HUGE_VAL};
    EdgeSet apart;
  };

  static void add(GroupCost& sum, const GroupCost& cost) {
    sum.seconds += cost.seconds;
    sum.moving_seconds += cost.moving_seconds;
  }

  std::int32_t position(const Node* node) const {
    return static_cast<std::int32_t>(std::find(nodes_.begin(), nodes_.end(), node) -
                                     nodes_.begin());
  }

  // Edges within one of the two kernels, by their distance from the refused one.
  void find_edges() {
    std::set<const Node*> reached = {refused_.first, refused_.second};
    std::vector<const Node*> frontier = {refused_.first, refused_.second};
    Groups& groups = merging_.groups();
    const auto step = [&](const Node* from, const Node* to, const Edge& edge,
                          std::vector<const Node*>& next) {
      if (!inside_.contains(to) || groups.group_of(from) != groups.group_of(to)) return;
      if (std::find(edges_.begin(), edges_.end(), edge) == edges_.end()) edges_.push_back(edge);
      if (reached.insert(to).second) next.push_back(to);
    };
    while (!frontier.empty() && edges_.size() < kMaxEdges) {
      std::vector<const Node*> next;
      for (const Node* node : frontier) {
        for (const Value* operand : node->operands()) {
          if (operand == nullptr || operand->producer() == nullptr) continue;
          step(node, operand->producer(), {operand->producer(), node}, next);
        }
        for (int i = 0; i < node->num_results(); ++i) {
          for (const Use& use : node->result(i)->uses())
            step(node, use.node, {node, use.node}, next);
        }
      }
      frontier = std::move(next);
    }
    if (edges_.size() > kMaxEdges) edges_.resize(kMaxEdges);
  }

  // Cuts that are tried and given up leave theirs.
  void remember_refusals() {
    for (const Node* node : nodes_) {
      for (const Value* operand : node->operands()) {
        if (operand == nullptr || !inside_.contains(operand->producer())) continue;
        const Edge edge = {operand->producer(), node};
        const auto refusal = merging_.refusals().find(edge);
        if (refusal != merging_.refusals().end()) refusals_before_.emplace(edge, refusal->second);
      }
    }
  }

  void cut(const EdgeSet& apart) {
    Groups& groups = merging_.groups();
    std::set<Group*> present;
    for (const Node* node : nodes_) present.insert(groups.group_of(node));
    const std::vector<Group*> list(present.begin(), present.end());
    groups.dissolve(list);
    for (Node* node : nodes_) merging_.join_producers(*node, &inside_, &apart);
  }

  Found tried(EdgeSet apart) {
    cut(apart);
    std::set<const Group*> present;
    for (const Node* node : nodes_) present.insert(merging_.groups().group_of(node));
    GroupCost cost;
    for (const Group* group : present) add(cost, group_cost(*group, options_));
    return {cost, std::move(apart)};
  }

  Found best_of_all() {
    Found best;
    for (std::size_t choice = 1; choice < std::size_t{1} << edges_.size(); ++choice) {
      EdgeSet apart;
      for (std::size_t i = 0; i < edges_.size(); ++i) {
        if ((choice >> i & 1) != 0) apart.insert(edges_[i]);
      }
      take_better(best, tried(std::move(apart)));
    }
    return best;
  }

  Found best_of_beam() {
    Found best;
    std::vector<Found> beam = {Found{}};
    std::set<EdgeSet> seen;
    for (int depth = 0; depth < kBeamDepth; ++depth) {
      std::vector<Found> next;
      for (const Found& from : beam) {
        for (const Edge& edge : edges_) {
          EdgeSet apart = from.apart;
          if (!apart.insert(edge).second || !seen.insert(apart).second) continue;
          next.push_back(tried(std::move(apart)));
          take_better(best, next.back());
        }
      }
      std::stable_sort(next.begin(), next.end(), [](const Found& a, const Found& b) {
        return a.cost.moving_seconds < b.cost.moving_seconds;
      });
      if (next.size() > kBeamWidth) next.resize(kBeamWidth);
      beam = std::move(next);
    }
    return best;
  }

  // Of equals the first: fewer edges apart, nearer to the refused one.
  void take_better(Found& best, const Found& found) const {
    constexpr double kRounding = 1e-9;
    if (found.cost.seconds > cost_before_.seconds * (1 + kRounding)) return;
    if (found.cost.moving_seconds > cost_before_.moving_seconds * (1 - kMargin)) return;
    if (found.cost.seconds < best.cost.seconds * (1 - kRounding)) best = found;
  }

  const PlanOptions& options_;
  Merging& merging_;
  Edge refused_;
  std::vector<Node*> nodes_;
  std::set<const Node*> inside_;
  std::vector<Group> before_;
  GroupCost cost_before_;
  std::map<Edge, Refusal> refusals_before_;
  std::vector<Edge> edges_;
};

// Edges that were refused, in the graph's order.
std::vector<Edge> refused_edges(const Graph& graph, const Merging& merging) {
  std::vector<Edge> edges;
  for (const auto& node : graph.nodes()) {
    for (const Value* operand : node->operands()) {
      if (operand == nullptr || operand->producer() == nullptr) continue;
      const auto refusal = merging.refusals().find({operand->producer(), node.get()});
      if (refusal == merging.refusals().end() || !may_be_regrouped(refusal->second.code)) continue;
      edges.emplace_back(operand->producer(), node.get());
    }
  }
  return edges;
}

}  // namespace

GroupCost group_cost(const Group& group, const PlanOptions& options) {
  constexpr GroupCost kImpossible = {HUGE_VAL, HUGE_VAL};
  if (group.only_aliases()) return {};
  const Kernel kernel = kernel_of(group);
  const auto estimate = options.oracle(kernel);
  if (!estimate) return kImpossible;
  const Bindings nominal = kernel_bindings(kernel, options.nominal_size);
  const auto work = estimate->work(nominal);
  if (!work) return kImpossible;
  const auto cost = kernel_cost(kernel, *work, *options.target, nominal);
  if (!cost) return kImpossible;
  return {cost->seconds(), cost->memory_seconds + cost->launch_seconds};
}

SearchOutcome search_regions(const Graph& graph, const PlanOptions& options, Merging& merging) {
  SearchOutcome outcome;
  Structures structures;
  std::unordered_map<Structures::Key, bool, StructureHash> cannot_improve;
  for (int round = 0; round < kRounds; ++round) {
    bool changed = false;
    for (const Edge& edge : refused_edges(graph, merging)) {
      Groups& groups = merging.groups();
      const Group* const producer = groups.group_of(edge.first);
      const Group* const consumer = groups.group_of(edge.second);
      if (producer == consumer) continue;
      if (producer->nodes.size() + consumer->nodes.size() > kMaxNodes) continue;
      if (producer->nodes.size() + consumer->nodes.size() == 2) continue;
      Region region(options, merging, edge);
      if (!region.is_worth_a_look()) continue;
      const Structures::Key key = region.key(structures);
      if (cannot_improve.contains(key)) continue;
      ++outcome.regions;
      if (region.improve()) {
        ++outcome.improved;
        changed = true;
      } else {
        cannot_improve.emplace(key, true);
      }
    }
    if (!changed) break;
  }
  return outcome;
}

}  // namespace opweld
