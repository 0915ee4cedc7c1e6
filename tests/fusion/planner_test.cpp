#include "fusion/planner.h"

#include "fusion/planning.h"

namespace opweld::testing {
namespace {

// The plan of a graph written as text, as text.
std::string plan_of(const std::string& text, FusionLevel level = FusionLevel::Auto,
                    RuleSet rules = RuleSet::Full) {
  PlanSettings settings;
  settings.level = level;
  settings.rules = rules;
  return PlannedGraph(text, settings).text();
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
}  // namespace opweld::testing
