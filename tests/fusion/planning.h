// Plans graphs written as text, with the schedules themselves as the oracle, and looks verdicts up
// by the names of values.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "fusion/planner.h"
#include "fusion/reasons.h"
#include "ops/builder.h"
#include "tile/estimate.h"
#include "tile/lower.h"

namespace opweld::testing {

// What the schedules for this target say of a group.
inline KernelOracle schedules_for(const Target& target) {
  return remembered([&target](const Graph& group, KernelKind kind) {
    return tile::lower(group, kind, {&target, false}, "group")
        .map([&target](tile::LoweredKernel kernel) {
          return tile::estimate(std::move(kernel), target);
        });
  });
}

// Values that operators compute and operators read, once for each operand that reads one.
inline std::size_t num_edges(const Graph& graph) {
  std::size_t edges = 0;
  for (const auto& node : graph.nodes()) {
    for (const Value* operand : node->operands()) {
      const bool computed = operand != nullptr && operand->producer() != nullptr;
      edges += computed && operand->producer()->op() != "constant" ? 1 : 0;
    }
  }
  return edges;
}

struct PlanSettings {
  FusionLevel level = FusionLevel::Auto;
  RuleSet rules = RuleSet::Full;
  std::vector<KernelKind> without = {};
  int max_nodes = PlanOptions().max_nodes;
  int max_tensors = PlanOptions().max_tensors;
  Target target = host_target();
  bool attention_chains = false;
  bool search = true;
  bool recompute = true;
  std::int64_t search_questions = PlanOptions().search_questions;
  std::int64_t search_questions_of_node = PlanOptions().search_questions_of_node;
};

class PlannedGraph {
 public:
  explicit PlannedGraph(std::string_view text, const PlanSettings& settings = {})
      : PlannedGraph(parse(text), settings) {}

  explicit PlannedGraph(Graph graph, const PlanSettings& settings = {}) : graph_(std::move(graph)) {
    PlanOptions options;
    options.level = settings.level;
    options.rules = settings.rules;
    options.without = settings.without;
    options.attention_chains = settings.attention_chains;
    options.search = settings.search;
    options.recompute = settings.recompute;
    options.search_questions = settings.search_questions;
    options.search_questions_of_node = settings.search_questions_of_node;
    options.max_nodes = settings.max_nodes;
    options.max_tensors = settings.max_tensors;
    options.target = &settings.target;
    options.oracle = schedules_for(settings.target);
    auto plan = plan_fusion(graph_, options);
    EXPECT_TRUE(plan) << plan.error().message;
    if (plan) plan_ = std::move(*plan);
    EXPECT_EQ(check_plan(graph_, plan_), "");
    EXPECT_EQ(plan_.verdicts.size(), num_edges(graph_)) << "one verdict for every edge";
  }

  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] const FusionPlan& plan() const { return plan_; }
  [[nodiscard]] std::string text() const { return to_text(plan_); }

  // On the edge from the operator that makes the value `from` to the one that makes `to`.
  [[nodiscard]] Verdict verdict(std::string_view from, std::string_view to) const {
    for (const Verdict& verdict : plan_.verdicts) {
      if (verdict.value->name() == from && verdict.consumer->result()->name() == to) return verdict;
    }
    ADD_FAILURE() << "no edge from " << from << " to " << to;
    return {};
  }

  // "fused", or the code and the detail: "F-FORK: 2 readers".
  [[nodiscard]] std::string edge(std::string_view from, std::string_view to) const {
    const Verdict found = verdict(from, to);
    if (found.code == ReasonCode::Fused) return found.kernel >= 0 ? "fused" : found.detail;
    return fmt::format("{}: {}", reason(found.code).name, found.detail);
  }

 private:
  static Graph parse(std::string_view text) {
    auto graph = parse_graph(text);
    EXPECT_TRUE(graph) << graph.error().message;
    return graph ? std::move(*graph) : Graph();
  }

  Graph graph_;
  FusionPlan plan_;
};

inline constexpr RuleSet kRuleSets[] = {RuleSet::Linear, RuleSet::Full};

}  // namespace opweld::testing
