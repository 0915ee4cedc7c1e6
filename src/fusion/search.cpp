#include "fusion/search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "fusion/boundary.h"
#include "fusion/group_cost.h"
#include "fusion/region_bound.h"
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
         code == ReasonCode::Cycle || code == ReasonCode::Cost || code == ReasonCode::Format;
}

// The nodes of two kernels, and the ways to cut them.
class Region {
 public:
  Region(const PlanOptions& options, Merging& merging, GroupCosts& costs, Edge refused)
      : options_(options), merging_(merging), costs_(costs), refused_(std::move(refused)) {
    Groups& groups = merging_.groups();
    Group& producer = *groups.group_of(refused_.first);
    Group& consumer = *groups.group_of(refused_.second);
    nodes_ = groups.union_of(producer, consumer);
    inside_.insert(nodes_.begin(), nodes_.end());
    before_ = {producer, consumer};
    for (const Group& group : before_) add(cost_before_, costs_.cost(group));
  }

  // By how many seconds of moving less some cut might at the most be better, as far as that is more
  // than the margin; 0: none can be. Edges whose ends apart cannot be better are not tried.
  double possible_gain() {
    if (!std::isfinite(cost_before_.seconds)) return 0;
    find_edges();
    const RegionBound bound(nodes_, options_);
    const double most = cost_before_.moving_seconds * (1 - kMargin);
    double least = cost_before_.moving_seconds;
    std::erase_if(edges_, [&](const Edge& edge) {
      const double moving = bound.apart(edge.first, edge.second, most);
      if (moving <= most) least = std::min(least, moving);
      return moving > most;
    });
    return cost_before_.moving_seconds - least;
  }

  // About how many questions it takes to improve().
  [[nodiscard]] std::int64_t questions() const {
    constexpr std::int64_t kQuestionsOfCut = 6;
    const auto edges = static_cast<std::int64_t>(edges_.size());
    if (edges_.size() <= kExactEdges) return ((std::int64_t{1} << edges) - 1) * kQuestionsOfCut;
    return edges * (1 + static_cast<std::int64_t>(kBeamWidth) / 2) * kQuestionsOfCut;
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

  // Which edges are kept apart, by the places of their ends among the nodes, and how schedules were
  // asked: the same for all regions that are alike.
  struct Cut {
    std::vector<std::pair<std::int32_t, std::int32_t>> apart;
    Merging::Asking asking = Merging::Asking::Always;
  };

  // Leaves the best cut in place; nothing where that is as it was before.
  std::optional<Cut> improve() {
    const Found best = edges_.size() <= kExactEdges ? best_of_all() : best_of_beam();
    if (!keep_if_better(best)) return std::nullopt;
    Cut made{{}, best.asking};
    for (const Edge& edge : best.apart) {
      made.apart.emplace_back(position(edge.first), position(edge.second));
    }
    return made;
  }

  // What was best of a region that is alike; whether it is better here too, and stays.
  bool repeat(const Cut& other) {
    EdgeSet apart;
    for (const auto& [from, to] : other.apart) {
      apart.emplace(nodes_[static_cast<std::size_t>(from)], nodes_[static_cast<std::size_t>(to)]);
    }
    Found best;
    take_better(best, tried(std::move(apart), other.asking));
    return keep_if_better(best);
  }

 private:
  using EdgeSet = std::set<Edge>;

  struct Found {
    GroupCost cost = {HUGE_VAL, HUGE_VAL};
    EdgeSet apart;
    Merging::Asking asking = Merging::Asking::Always;  // by which it came out
    bool is_served = false;
  };

  bool keep_if_better(const Found& best) {
    if (!std::isfinite(best.cost.seconds)) {
      merging_.groups().restore(before_);
      return false;
    }
    cut(best.apart, best.asking, false);
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

  // The groups that the nodes are in, in their order.
  std::vector<Group*> present() {
    std::vector<Group*> groups;
    for (const Node* node : nodes_) {
      Group* const group = merging_.groups().group_of(node);
      if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
    }
    return groups;
  }

  void cut(const EdgeSet& apart, Merging::Asking asking, bool is_trial) {
    merging_.groups().dissolve(present());
    const Merging::Scope scope{&inside_, &apart, asking, is_trial};
    for (Node* node : nodes_) merging_.join_producers(*node, scope);
  }

  // Schedules are asked only where what comes out moves less. And nearly all kernels are served, so
  // that at first only those are asked about that come out; chains are where they pay, and where
  // they do, one of the two was one.
  Found tried(EdgeSet apart) {
    const bool chains =
        std::ranges::find(before_, KernelKind::Chain, &Group::kind) != before_.end();
    Found found = tried(apart, chains ? Merging::Asking::Never : Merging::Asking::OfChains);
    if (found.is_served) return found;
    return tried(std::move(apart), Merging::Asking::Always);
  }

  Found tried(EdgeSet apart, Merging::Asking asking) {
    Found found{{HUGE_VAL, 0}, std::move(apart), asking, true};
    cut(found.apart, asking, true);
    const std::vector<Group*> groups = present();
    for (const Group* group : groups) {
      found.cost.moving_seconds += costs_.least_moving_seconds(*group);
    }
    if (found.cost.moving_seconds > cost_before_.moving_seconds * (1 - kMargin)) return found;
    GroupCost cost;
    for (const Group* group : groups) {
      // Where they were asked on the way, rules may have allowed what is large.
      found.is_served = asking == Merging::Asking::Always || costs_.may_be_made(*group);
      if (!found.is_served) return found;
      add(cost, costs_.cost(*group));
    }
    found.cost = cost;
    return found;
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
  GroupCosts& costs_;
  Edge refused_;
  std::vector<Node*> nodes_;
  std::set<const Node*> inside_;
  std::vector<Group> before_;
  GroupCost cost_before_;
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

namespace {

class RegionSearch {
 public:
  RegionSearch(const Graph& graph, const PlanOptions& options, Merging& merging,
               const std::int64_t& asked)
      : graph_(graph),
        options_(options),
        merging_(merging),
        costs_(options),
        asked_(asked),
        left_(options.search_questions +
              options.search_questions_of_node * static_cast<std::int64_t>(graph.num_nodes())) {}

  SearchOutcome run() {
    for (int round = 0; round < kRounds; ++round) {
      const int improved = outcome_.improved;
      for (const Edge& edge : worth_a_look()) look_at(edge);
      if (outcome_.improved == improved) break;
    }
    return outcome_;
  }

 private:
  // A region, and what it has in common with those that are alike.
  struct Found {
    Region region;
    Structures::Key key;
  };

  struct Prospect {
    std::size_t place;  // among the edges
    Structures::Key key;
    double gain;
    std::int64_t questions;  // if it is the first of its kind
  };

  // In the graph's order. Where there are more than can be asked about, those from which most is to
  // be had for a question.
  std::vector<Edge> worth_a_look() {
    const std::vector<Edge> edges = refused_edges(graph_, merging_);
    std::vector<Prospect> prospects;
    for (std::size_t place = 0; place < edges.size(); ++place) {
      auto found = region_at(edges[place]);
      if (!found) continue;
      const double gain = found->region.possible_gain();
      if (gain <= 0) continue;
      prospects.push_back({place, std::move(found->key), gain, found->region.questions()});
    }
    choose(prospects);
    std::vector<Edge> chosen;
    chosen.reserve(prospects.size());
    for (const Prospect& each : prospects) chosen.push_back(edges[each.place]);
    return chosen;
  }

  void choose(std::vector<Prospect>& prospects) {
    const auto gain = [](const Prospect& each) {
      return each.gain / static_cast<double>(each.questions);
    };
    std::ranges::stable_sort(prospects, std::greater(), gain);
    std::int64_t left = left_;
    std::unordered_set<Structures::Key, StructureHash> paid;
    const auto is_too_much = [&](const Prospect& each) {
      if (left <= 0) return !paid.contains(each.key) && !outcomes_.contains(each.key);
      if (!outcomes_.contains(each.key) && paid.insert(each.key).second) left -= each.questions;
      return false;
    };
    outcome_.passed_over += static_cast<int>(std::erase_if(prospects, is_too_much));
    std::ranges::sort(prospects, {}, &Prospect::place);
  }

  // Nothing where the two are one kernel by now, or known to be no better in any other way.
  std::optional<Found> region_at(const Edge& edge) {
    Groups& groups = merging_.groups();
    const Group* const producer = groups.group_of(edge.first);
    const Group* const consumer = groups.group_of(edge.second);
    if (producer == consumer) return std::nullopt;
    const std::size_t nodes = producer->nodes.size() + consumer->nodes.size();
    if (nodes > kMaxNodes || nodes == 2) return std::nullopt;
    Region region(options_, merging_, costs_, edge);
    Structures::Key key = region.key(structures_);
    const auto known = outcomes_.find(key);
    if (known != outcomes_.end() && !known->second) return std::nullopt;
    return Found{std::move(region), std::move(key)};
  }

  void look_at(const Edge& edge) {
    auto found = region_at(edge);
    if (!found || found->region.possible_gain() <= 0) return;
    const auto known = outcomes_.find(found->key);
    if (known != outcomes_.end()) {
      ++outcome_.regions;
      outcome_.improved += found->region.repeat(*known->second) ? 1 : 0;
      return;
    }
    if (left_ <= 0) {
      ++outcome_.passed_over;
      return;
    }
    const std::int64_t asked_before = asked_;
    std::optional<Region::Cut> cut = found->region.improve();
    left_ -= asked_ - asked_before;
    ++outcome_.regions;
    outcome_.improved += cut ? 1 : 0;
    outcomes_.emplace(std::move(found->key), std::move(cut));
  }

  const Graph& graph_;
  const PlanOptions& options_;
  Merging& merging_;
  GroupCosts costs_;
  const std::int64_t& asked_;
  std::int64_t left_;  // questions that cuts may ask, but for those of the last one
  SearchOutcome outcome_;
  Structures structures_;
  // Of regions by what they have in common: the cut that was best; nothing: none was better.
  std::unordered_map<Structures::Key, std::optional<Region::Cut>, StructureHash> outcomes_;
};

}  // namespace

SearchOutcome search_regions(const Graph& graph, const PlanOptions& options, Merging& merging,
                             const std::int64_t& asked) {
  return RegionSearch(graph, options, merging, asked).run();
}

}  // namespace opweld
