// Kernels that share nothing but what they read.
#include "fusion/siblings.h"

#include "fusion/planning.h"

namespace opweld::testing {
namespace {

TEST(Siblings, LookUpsByTheSamePositionsAreOneKernel) {
  const std::string text = R"(graph g(%p: i64[b, s]) {
    %c = constant {value = f32[512, 64] random 1}
    %d = constant {value = f32[512, 64] random 2}
    %x = gather(%c, %p) {axis = 0}
    %y = gather(%d, %p) {axis = 0}
    return %x as "cos", %y as "sin"
  })";
  EXPECT_EQ(PlannedGraph(text).text(), "0 map: gather + gather\n");
  PlanSettings linear;
  linear.rules = RuleSet::Linear;
  EXPECT_EQ(PlannedGraph(text, linear).plan().kernels.size(), 2U);
}

// A model whose sizes are free has as few kernels as one whose sizes are small and known.
TEST(Siblings, AreOneKernelThoughManyOfThemHaveNoRoomInCaches) {
  // With unknown sizes at 128 each, what one of them writes is 4 MiB.
  PlanSettings settings;
  settings.target.passed_on_bytes = 6 << 20;
  settings.target.cache_bandwidth = 8 * settings.target.bandwidth;
  EXPECT_EQ(PlannedGraph(R"(graph g(%p: i64[b, s]) {
    %c = constant {value = f32[512, 64] random 1}
    %d = constant {value = f32[512, 64] random 2}
    %x = gather(%c, %p) {axis = 0}
    %y = gather(%d, %p) {axis = 0}
    return %x as "cos", %y as "sin"
  })",
                         settings)
                .text(),
            "0 map: gather + gather\n");
}

TEST(Siblings, TwoStatisticsOfTheSameRowsAreOneKernel) {
  EXPECT_EQ(PlannedGraph(R"(graph g(%x: f32[s, 64]) {
    %m = reduce_max(%x) {axes = [1], keepdims = 0}
    %n = reduce_min(%x) {axes = [1], keepdims = 0}
    return %m as "m", %n as "n"
  })")
                .plan()
                .kernels.size(),
            1U);
}

// Keys and values behind those that are kept: they come from one kernel, and are put there by one.
TEST(Siblings, WhatOneKernelMakesIsPutInPlaceByOne) {
  const auto text = [](const char* other) {
    return fmt::format(R"(graph g(%x: f32[s, 64], %k: f32[p, 64], %v: f32[{}, 64]) {{
      %w = constant {{value = f32[64, 128] random 1}}
      %y = matmul(%x, %w)
      %a = slice(%y) {{starts = <0, 0>, sizes = <s, 64>, steps = [1, 1]}}
      %b = slice(%y) {{starts = <0, 64>, sizes = <s, 64>, steps = [1, 1]}}
      %e = concat(%k, %a) {{axis = 0}}
      %f = concat(%v, %b) {{axis = 0}}
      return %e as "keys", %f as "values"
    }})",
                       other);
  };
  EXPECT_EQ(PlannedGraph(text("p")).plan().kernels.size(), 2U);
  EXPECT_EQ(PlannedGraph(text("q")).plan().kernels.size(), 3U) << "of other lengths";
  PlanSettings linear;
  linear.rules = RuleSet::Linear;
  EXPECT_EQ(PlannedGraph(text("p"), linear).plan().kernels.size(), 3U);
}

TEST(Siblings, WhatFeedsTheOtherByAWayAroundStaysApart) {
  // The second kernel waits for the call, which waits for the first.
  const PlannedGraph planned(R"(graph g(%x: f32[s, 8]) {
    %a = exp(%x)
    %v, %i = top_k(%a) {axis = 1, k = <8>, largest = 0, sorted = 1}
    %y = sub(%v, %x)
    return %y as "y"
  })");
  EXPECT_EQ(planned.text(), "0 map: exp\n1 extern: top_k\n2 map: sub\n");
}

TEST(Siblings, OtherShapesAndOtherKindsStayApart) {
  EXPECT_EQ(PlannedGraph(R"(graph g(%x: f32[s, 64], %r: f32[s, 64]) {
    %a = exp(%x)
    %s = reduce_sum(%x) {axes = [0], keepdims = 0}
    return %a as "a", %s as "s"
  })")
                .plan()
                .kernels.size(),
            2U);
}

}  // namespace
}  // namespace opweld::testing
