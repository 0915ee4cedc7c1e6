#include "fusion/planner.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/builder.h"
#include "tile/lower.h"

namespace opweld {
namespace {

// The plan of a graph written as text, as text; the schedules themselves are asked what they serve.
std::string plan_of(const std::string& text, FusionLevel level = FusionLevel::Auto,
                    RuleSet rules = RuleSet::Full) {
  const Graph graph = parse_graph(text).value();
  const Target target = host_target();
  PlanOptions options;
  options.level = level;
  options.rules = rules;
  options.target = &target;
  options.oracle = [&](const Graph& group, KernelKind kind) -> Status {
    const auto lowered = tile::lower(group, kind, {&target, false}, "group");
    if (!lowered) return tl::unexpected(lowered.error());
    return {};
  };
  const auto plan = plan_fusion(graph, options);
  if (!plan) return plan.error().message;
  std::size_t edges = 0;
  for (const auto& node : graph.nodes()) {
    for (const Value* operand : node->operands()) {
      const bool computed = operand != nullptr && operand->producer() != nullptr;
      edges += computed && operand->producer()->op() != "constant" ? 1 : 0;
    }
  }
  EXPECT_EQ(plan->verdicts.size(), edges) << "one verdict for every edge";
  return to_text(*plan);
}

constexpr const char* kResidualNorm = R"(graph g(%x: f32[s, 64], %r: f32[s, 64], %g: f32[64]) {
  %h = add(%x, %r)
  %y = rms_norm(%h, %g) {axis = -1, epsilon = 1e-05}
  return %y as "y", %h as "h"
})";

TEST(Planner, ResidualAndNormAreOneKernelWithTwoOutputs) {
  EXPECT_EQ(plan_of(kResidualNorm), "0 row: add + rms_norm\n");
  EXPECT_EQ(plan_of(kResidualNorm, FusionLevel::None), "0 map: add\n1 row: rms_norm\n");
  // The classic rules refuse a value that is also given out.
  EXPECT_EQ(plan_of(kResidualNorm, FusionLevel::Auto, RuleSet::Linear),
            "0 map: add\n1 row: rms_norm\n");
}

TEST(Planner, EpiloguesJoinTheMatmulBeforeThem) {
  EXPECT_EQ(plan_of(R"(graph g(%x: f32[s, 64], %r: f32[s, 32]) {
    %w = constant {value = f32[64, 32] random 1}
    %b = constant {value = f32[32] random 2}
    %m = matmul(%x, %w)
    %a = add(%m, %b)
    %t = tanh(%a)
    %y = add(%t, %r)
    return %y as "y"
  })"),
            "0 contract: matmul + add + tanh + add\n");
}

TEST(Planner, WhatStandsBetweenTwoOperatorsKeepsThemApart) {
  // The sum would join the exp at its one end and the sort's result at the other.
  EXPECT_EQ(plan_of(R"(graph g(%x: f32[s, 8]) {
    %a = exp(%x)
    %v, %i = top_k(%a) {axis = 1, k = <8>, largest = 1, sorted = 1}
    %y = add(%a, %v)
    return %y as "y"
  })"),
            "0 map: exp\n1 extern: top_k\n2 map: add\n");
}

TEST(Planner, AValueReadTwiceByOneOperatorIsComputedOnce) {
  EXPECT_EQ(plan_of(R"(graph g(%x: f32[n]) {
    %a = exp(%x)
    %y = mul(%a, %a)
    return %y as "y"
  })"),
            "0 map: exp + mul\n");
}

TEST(Planner, LongChainsAreCutAtTheLimit) {
  std::string inputs = "%x: f32[n]";
  std::string body;
  std::string last = "%x";
  for (int i = 0; i < 50; ++i) {
    inputs += fmt::format(", %i{}: f32[n]", i);
    body += fmt::format("%a{} = add({}, %i{})\n", i, last, i);
    last = fmt::format("%a{}", i);
  }
  const std::string plan =
      plan_of("graph g(" + inputs + ") {\n" + body + "return " + last + " as \"y\"\n}");
  const auto kernels = std::count(plan.begin(), plan.end(), '\n');
  EXPECT_GT(kernels, 1);
  EXPECT_LT(kernels, 5);
}

}  // namespace
}  // namespace opweld
