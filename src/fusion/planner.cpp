#include "fusion/planner.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>

#include "fusion/cost.h"
#include "fusion/foreseen.h"
#include "fusion/group_cost.h"
#include "fusion/legality/legality.h"
#include "fusion/merging.h"
#include "fusion/recompute.h"
#include "fusion/search.h"
#include "fusion/search_memory.h"
#include "fusion/siblings.h"
#include "fusion/statistics.h"
#include "ops/stored_weights.h"

namespace opweld {

namespace {

class Planner {
 public:
  Planner(const Graph& graph, const PlanOptions& options)
      : graph_(graph),
        options_(counting(options)),
        merging_(graph, options_),
        groups_(merging_.groups()) {}

  FusionPlan run() {
    FusionPlan plan;
    plan.level = options_.level;
    if (options_.level != FusionLevel::None) merge(plan);
    plan.more_from_rows = more_from_rows_;
    emit_kernels(plan);
    if (options_.rows_granted > 0) emit_conditions(plan);
    emit_verdicts(plan);
    return plan;
  }

 private:
  // The same, knowing the graph's weights, with an oracle that counts how often it is asked; and
  // what rules say of rows is noted.
  PlanOptions counting(PlanOptions options) {
    options.model_weight_bytes = static_cast<double>(stored_weight_bytes(graph_));
    if (options.memory == nullptr) options.memory = &own_memory_;
    options.on_rows_asked = [this, memory = options.memory](std::int64_t rows, bool granted) {
      if (memory->comparing != nullptr) memory->comparing->compared(rows, granted);
      const bool is_fewest = more_from_rows_ == 0 || rows < more_from_rows_;
      if (!granted && is_fewest) more_from_rows_ = rows;
    };
    if (!options.oracle) return options;
    options.oracle = [this, oracle = std::move(options.oracle)](const Kernel& kernel) {
      ++asked_;
      return oracle(kernel);
    };
    return options;
  }

  void merge(FusionPlan& plan) {
    const bool searches = options_.level == FusionLevel::Auto && options_.search && options_.oracle;
    merge_greedily(searches ? Merging::Asking::Unforeseen : Merging::Asking::Always);
    if (!searches) return;
    if (!all_are_as_foreseen()) {
      merging_.begin_anew();
      more_from_rows_ = 0;
      merge_greedily(Merging::Asking::Always);
    }
    plan.search.greedy_seconds = total_seconds();
    const SearchOutcome outcome = search_regions(graph_, options_, merging_, asked_);
    plan.search.regions = outcome.regions;
    plan.search.improved = outcome.improved;
    plan.search.passed_over = outcome.passed_over;
    plan.search.siblings = merge_siblings(graph_, options_, merging_);
    const bool changed = outcome.improved > 0 || plan.search.siblings > 0;
    plan.search.seconds = changed ? total_seconds() : plan.search.greedy_seconds;
    plan.search.statistics = merge_statistics(graph_, options_, merging_);
    plan.search.questions = asked_;
  }

  void merge_greedily(Merging::Asking asking) {
    Merging::Scope scope;
    scope.asking = asking;
    for (Node* node : graph_.nodes_in_order()) {
      if (groups_.has(node)) merging_.join_producers(*node, scope);
    }
  }

  // Whether schedules serve the kernels that they were not asked about. What is asked here is asked
  // for the costs anyway.
  bool all_are_as_foreseen() {
    return std::ranges::all_of(groups_.in_order(), [this](const Group* group) {
      return group->is_asked || is_as_foreseen(*group, options_);
    });
  }

  double total_seconds() {
    double total = 0;
    for (const Group* group : groups_.in_order()) {
      const double seconds = group_cost(*group, options_).seconds;
      // What a call takes is not known, but it is a launch at least.
      total += std::isfinite(seconds) ? seconds : options_.target->launch_seconds;
    }
    return total;
  }

  void emit_kernels(FusionPlan& plan) {
    make_kernels(plan);
    if (recomputes()) {
      plan.recomputations = recompute_forks(plan.kernels, groups_, options_);
      plan.search.questions = asked_;
    }
    int id = 0;
    for (Kernel& kernel : plan.kernels) {
      kernel.id = id++;
      complete_kernel(kernel);
      for (const Node* node : kernel.nodes) kernels_of_[node].push_back(kernel.id);
    }
  }

  [[nodiscard]] bool recomputes() const {
    return options_.level == FusionLevel::Auto && options_.rules == RuleSet::Full &&
           options_.search && options_.oracle && options_.recompute;
  }

  void make_kernels(FusionPlan& plan) {
    for (const Group* group : groups_.in_order()) {
      if (group->only_aliases()) {
        for (Node* node : group->nodes) plan.aliases.push_back({node->result(), node->operand(0)});
        continue;
      }
      plan.kernels.push_back(kernel_of(*group));
    }
  }

  void emit_conditions(FusionPlan& plan) const {
    for (const Kernel& kernel : plan.kernels) {
      if (kernel.kind != KernelKind::Chain || !options_.oracle) continue;
      const auto made = options_.oracle(kernel);
      if (!made) continue;  // lowering it will say so
      auto condition = rows_asked_for(kernel, *made, options_);
      if (!condition) continue;
      // Of those on the same size, the one that asks for most.
      const auto same = std::ranges::find(plan.conditions, condition->size, &SizeCondition::size);
      if (same == plan.conditions.end()) {
        plan.conditions.push_back(std::move(*condition));
      } else if (same->least < condition->least) {
        *same = std::move(*condition);
      }
    }
  }

  void emit_verdicts(FusionPlan& plan) {
    for (const auto& node : graph_.nodes()) {
      if (!groups_.has(node.get())) continue;
      for (const Value* operand : node->operands()) {
        if (operand == nullptr || operand->producer() == nullptr) continue;
        if (groups_.has(operand->producer())) plan.verdicts.push_back(verdict(operand, *node));
      }
    }
  }

  Verdict verdict(const Value* value, const Node& consumer) {
    Verdict result;
    result.value = value;
    result.producer = value->producer();
    result.consumer = &consumer;
    // As a kernel of its own a prologue would have been made once, before all runs.
    const bool is_prologue = is_weight_prologue(*result.producer);
    result.bytes_saved = is_prologue ? Dim(0) : value->type().num_bytes() * 2;
    result.flops_added = flops_added_on({value->producer(), &consumer});
    const std::vector<int>& makers = kernels_of(value->producer());
    const std::vector<int>& readers = kernels_of(&consumer);
    const bool both = !makers.empty() && !readers.empty();
    if (both && std::ranges::includes(makers, readers)) {
      result.kernel = readers.front();
      if (makers.size() > 1) result.detail = fmt::format("computed in {} kernels", makers.size());
      return result;
    }
    const auto& refusals = merging_.refusals();
    if (const auto refusal = refusals.find({value->producer(), &consumer});
        refusal != refusals.end()) {
      result.code = refusal->second.code;
      result.detail = refusal->second.detail;
      return result;
    }
    if (!both) {
      result.detail = "a reshape, which moves nothing";
      return result;
    }
    if (readers.size() > 1 || makers.size() > 1) {
      result.code = ReasonCode::Recompute;
      result.detail = fmt::format("computed in {} kernels", readers.size());
      return result;
    }
    assert(options_.level == FusionLevel::None);
    result.code = ReasonCode::Level;
    return result;
  }

  // Where the node is computed; an alias nowhere.
  [[nodiscard]] const std::vector<int>& kernels_of(const Node* node) const {
    static const std::vector<int> kNowhere;
    const auto found = kernels_of_.find(node);
    return found == kernels_of_.end() ? kNowhere : found->second;
  }

  // As the two stood when they were asked about; below the level at which they are, each is alone.
  Dim flops_added_on(const Edge& edge) {
    const auto& asked = merging_.flops_added();
    if (const auto found = asked.find(edge); found != asked.end()) return found->second;
    if (options_.level != FusionLevel::None) return 0;  // other edges had joined them by then
    return opweld::flops_added(*groups_.group_of(edge.first), *groups_.group_of(edge.second));
  }

  SearchMemory own_memory_;  // where the caller keeps none
  std::int64_t asked_ = 0;   // of the oracle
  std::int64_t more_from_rows_ = 0;
  const Graph& graph_;
  const PlanOptions options_;
  Merging merging_;
  Groups& groups_;
  std::map<const Node*, std::vector<int>> kernels_of_;  // ascending
};

}  // namespace

Expected<FusionPlan> plan_fusion(const Graph& graph, const PlanOptions& options) {
  assert(options.target != nullptr);
  FusionPlan plan = Planner(graph, options).run();
  if (const std::string fault = check_plan(graph, plan); !fault.empty()) {
    return fail("the fusion plan is unsound: {}", fault);
  }
  return plan;
}

}  // namespace opweld
