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
#include "fusion/search_memory.h"
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

  using Cut = SearchMemory::Cut;

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
        memory_(*options.memory),
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
  using Prospect = SearchMemory::Prospect;

  struct Candidate {
    std::size_t place;  // among the edges
    Prospect prospect;
  };

  // In the graph's order. Where there are more than can be asked about, those from which most is to
  // be had for a question.
  std::vector<Edge> worth_a_look() {
    const std::vector<Edge> edges = refused_edges(graph_, merging_);
    std::vector<Candidate> candidates;
    for (std::size_t place = 0; place < edges.size(); ++place) {
      if (const auto prospect = prospect_at(edges[place])) candidates.push_back({place, *prospect});
    }
    choose(candidates);
    std::vector<Edge> chosen;
    chosen.reserve(candidates.size());
    for (const Candidate& each : candidates) chosen.push_back(edges[each.place]);
    return chosen;
  }

  void choose(std::vector<Candidate>& candidates) {
    const auto gain = [](const Candidate& each) {
      return each.prospect.gain / static_cast<double>(each.prospect.questions);
    };
    std::ranges::stable_sort(candidates, std::greater(), gain);
    std::int64_t left = left_;
    std::unordered_set<std::size_t> paid;
    const auto is_too_much = [&](const Candidate& each) {
      const auto& [most, questions, likeness] = each.prospect;
      if (left <= 0) return !paid.contains(likeness) && !outcomes_.contains(likeness);
      if (!outcomes_.contains(likeness) && paid.insert(likeness).second) left -= questions;
      return false;
    };
    outcome_.passed_over += static_cast<int>(std::erase_if(candidates, is_too_much));
    std::ranges::sort(candidates, {}, &Candidate::place);
  }

  // Nothing where the two are one kernel by now, or can be no better in any other way, or are known
  // not to be.
  std::optional<Prospect> prospect_at(const Edge& edge) {
    Groups& groups = merging_.groups();
    const Group& producer = *groups.group_of(edge.first);
    const Group& consumer = *groups.group_of(edge.second);
    if (&producer == &consumer) return std::nullopt;
    const std::size_t nodes = producer.nodes.size() + consumer.nodes.size();
    if (nodes > kMaxNodes || nodes == 2) return std::nullopt;
    const auto [known, is_new] = memory_.prospects.try_emplace(key_of(producer, consumer, edge));
    if (is_new) known->second = prospect_of(edge);
    const Prospect& prospect = known->second;
    if (prospect.gain <= 0) return std::nullopt;
    const auto outcome = outcomes_.find(prospect.likeness);
    if (outcome != outcomes_.end() && !outcome->second) return std::nullopt;
    return prospect;
  }

  static NodeKey key_of(const Group& producer, const Group& consumer, const Edge& edge) {
    NodeKey key;
    key.reserve(producer.nodes.size() + consumer.nodes.size() + 5);
    key.push_back(static_cast<std::uintptr_t>(producer.kind));
    append_to(key, producer.nodes);
    key.push_back(0);
    key.push_back(static_cast<std::uintptr_t>(consumer.kind));
    append_to(key, consumer.nodes);
    key.push_back(0);
    append_to(key, std::vector{edge.first, edge.second});
    return key;
  }

  Prospect prospect_of(const Edge& edge) {
    Region region(options_, merging_, costs_, edge);
    Prospect prospect;
    prospect.gain = region.possible_gain();
    if (prospect.gain <= 0) return prospect;
    prospect.questions = region.questions();
    const std::size_t next = memory_.likenesses.size();
    prospect.likeness =
        memory_.likenesses.try_emplace(region.key(memory_.structures), next).first->second;
    memory_.outcomes.resize(memory_.likenesses.size());
    return prospect;
  }

  void look_at(const Edge& edge) {
    const auto prospect = prospect_at(edge);
    if (!prospect) return;
    const auto known = outcomes_.find(prospect->likeness);
    if (known == outcomes_.end() && left_ <= 0) {
      ++outcome_.passed_over;
      return;
    }
    ++outcome_.regions;
    Region region(options_, merging_, costs_, edge);
    if (known != outcomes_.end()) {
      outcome_.improved += region.repeat(*known->second) ? 1 : 0;
      return;
    }
    std::optional<Region::Cut>& outcome = outcomes_[prospect->likeness];
    if (const auto* const remembered = remembered_of(prospect->likeness)) {
      // As many questions count as it took: so the other plan says no more and no less is to be
      // looked at.
      left_ -= remembered->questions;
      const auto refused = remembered->rows.fewest_refused();
      if (refused) options_.on_rows_asked(*refused, false);
      outcome = remembered->cut;
      outcome_.improved += outcome && region.repeat(*outcome) ? 1 : 0;
      return;
    }
    region.possible_gain();
    outcome = improved(region, prospect->likeness);
    outcome_.improved += outcome ? 1 : 0;
  }

  // What another plan came to, where it holds for this one.
  [[nodiscard]] const SearchMemory::Outcome* remembered_of(std::size_t likeness) const {
    const auto& outcomes = memory_.outcomes[likeness];
    const auto found = std::ranges::find_if(outcomes, [this](const SearchMemory::Outcome& each) {
      return each.rows.contains(options_.rows_granted);
    });
    return found == outcomes.end() ? nullptr : &*found;
  }

  std::optional<Region::Cut> improved(Region& region, std::size_t likeness) {
    SearchMemory::Outcome outcome;
    memory_.comparing = &outcome.rows;
    const std::int64_t asked_before = asked_;
    outcome.cut = region.improve();
    outcome.questions = asked_ - asked_before;
    left_ -= outcome.questions;
    memory_.comparing = nullptr;
    return memory_.outcomes[likeness].emplace_back(std::move(outcome)).cut;
  }

  const Graph& graph_;
  const PlanOptions& options_;
  Merging& merging_;
  SearchMemory& memory_;
  GroupCosts costs_;
  const std::int64_t& asked_;
  std::int64_t left_;  // questions that cuts may ask, but for those of the last one
  SearchOutcome outcome_;
  // Of regions that are alike: the cut that was best; nothing: none was better.
  std::unordered_map<std::size_t, std::optional<Region::Cut>> outcomes_;
};

}  // namespace

SearchOutcome search_regions(const Graph& graph, const PlanOptions& options, Merging& merging,
                             const std::int64_t& asked) {
  return RegionSearch(graph, options, merging, asked).run();
}

}  // namespace opweld
