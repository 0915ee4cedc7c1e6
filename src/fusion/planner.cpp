#include "fusion/planner.h"

#include <algorithm>
#include <cassert>
#include <map>

#include "fusion/cost.h"
#include "fusion/legality/legality.h"
#include "ops/stored_weights.h"

namespace opweld {

namespace {

class Planner {
 public:
  Planner(const Graph& graph, const PlanOptions& options)
      : graph_(graph), options_(options), groups_(graph) {}

  FusionPlan run() {
    if (options_.level == FusionLevel::Auto) {
      for (Node* node : graph_.nodes_in_order()) {
        if (groups_.has(node)) join_producers(*node);
      }
    }
    FusionPlan plan;
    plan.level = options_.level;
    plan.more_when_larger = more_when_larger_;
    emit_kernels(plan);
    if (options_.many_rows) emit_conditions(plan);
    emit_verdicts(plan);
    return plan;
  }

 private:
  using Edge = std::pair<const Node*, const Node*>;

  void join_producers(Node& node) {
    for (const Value* operand : node.operands()) {
      if (operand == nullptr || operand->producer() == nullptr) continue;
      const Node* producer = operand->producer();
      if (!groups_.has(producer) || groups_.group_of(producer) == groups_.group_of(&node)) continue;
      const std::vector<Node*> joining = groups_.group_of(producer)->nodes;
      if (auto refusal =
              try_merge(*groups_.group_of(producer), *groups_.group_of(&node), operand)) {
        more_when_larger_ |= refusal->allowed_when_larger;
        refusals_[{producer, &node}] = *refusal;
        continue;
      }
      // A view that would not join its operand's producer by itself (a slice of a matmul's result,
      // while another slice is read elsewhere) may do so with its reader.
      for (Node* view : joining) {
        if (is_strided_view(*view)) join_producers(*view);
      }
    }
  }

  Legality try_merge(Group& producer, Group& consumer, const Value* value) {
    if (Legality refusal = check_opaque(producer, consumer)) return refusal;
    if (Legality refusal = check_kinds(producer, consumer)) return refusal;
    const KernelKind kind = *merged_kind(producer.kind, consumer.kind, producer.only_views);
    MergeCandidate candidate{groups_, producer, consumer, value, {}};
    candidate.merged.kind = kind;
    candidate.merged.nodes = groups_.union_of(producer, consumer);
    complete_kernel(candidate.merged);
    const FusionGain gain = estimate_gain(candidate, options_);
    if (gain.seconds < 0) {
      return Refusal{ReasonCode::Cost,
                     fmt::format("saves {:.0f} bytes, computes {:.0f} more operations",
                                 gain.bytes_saved, gain.flops_added)};
    }
    if (Legality refusal = check_legality(candidate, options_)) return refusal;
    groups_.merge(producer, consumer, kind);
    return std::nullopt;
  }

  void emit_kernels(FusionPlan& plan) {
    for (const Group* group : groups_.in_order()) {
      if (group->only_aliases()) {
        for (Node* node : group->nodes) plan.aliases.push_back({node->result(), node->operand(0)});
        continue;
      }
      Kernel kernel = kernel_of(*group, static_cast<int>(plan.kernels.size()));
      for (const Node* node : kernel.nodes) kernel_of_[node] = kernel.id;
      plan.kernels.push_back(std::move(kernel));
    }
  }

  void emit_conditions(FusionPlan& plan) const {
    for (const Kernel& kernel : plan.kernels) {
      if (kernel.kind != KernelKind::Chain || !options_.oracle) continue;
      const auto made = options_.oracle(extract_group(kernel), kernel.kind);
      if (!made) continue;  // lowering it will say so
      auto condition = rows_asked_for(kernel.name, *made);
      if (!condition) continue;
      const auto is_same = [&](const SizeCondition& each) {
        return each.size == condition->size && each.least == condition->least;
      };
      if (std::ranges::none_of(plan.conditions, is_same)) {
        plan.conditions.push_back(std::move(*condition));
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
    const auto producer_kernel = kernel_of_.find(value->producer());
    const auto consumer_kernel = kernel_of_.find(&consumer);
    const bool both = producer_kernel != kernel_of_.end() && consumer_kernel != kernel_of_.end();
    if (both && producer_kernel->second == consumer_kernel->second) {
      result.kernel = consumer_kernel->second;
      return result;
    }
    if (const auto refusal = refusals_.find({value->producer(), &consumer});
        refusal != refusals_.end()) {
      result.code = refusal->second.code;
      result.detail = refusal->second.detail;
      return result;
    }
    if (!both) {
      result.detail = "a reshape, which moves nothing";
      return result;
    }
    assert(options_.level != FusionLevel::Auto);
    result.code = ReasonCode::Level;
    return result;
  }

  const Graph& graph_;
  const PlanOptions& options_;
  Groups groups_;
  std::map<Edge, Refusal> refusals_;
  std::map<const Node*, int> kernel_of_;
  bool more_when_larger_ = false;
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

Expected<std::vector<FusionPlan>> plan_versions(const Graph& graph, PlanOptions options) {
  options.many_rows = false;
  std::vector<FusionPlan> versions;
  OPWELD_TRY(FusionPlan any_sizes, plan_fusion(graph, options));
  if (any_sizes.more_when_larger) {
    options.many_rows = true;
    OPWELD_TRY(FusionPlan large_sizes, plan_fusion(graph, options));
    // A merge that came before may have made one of the merges in question impossible.
    if (!large_sizes.conditions.empty()) versions.push_back(std::move(large_sizes));
  }
  versions.push_back(std::move(any_sizes));
  return versions;
}

}  // namespace opweld
