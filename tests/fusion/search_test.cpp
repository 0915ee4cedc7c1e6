// Graphs on which merging first come, first served loses, and what the search makes of them.
#include "fusion/search.h"

#include "fusion/planning.h"

namespace opweld::testing {
namespace {

struct Plans {
  PlannedGraph greedy;
  PlannedGraph searched;
};

Plans plans_of(const std::string& text, PlanSettings settings = {}) {
  settings.search = false;
  PlannedGraph greedy(text, settings);
  settings.search = true;
  return {std::move(greedy), PlannedGraph(text, settings)};
}

void expect_better(const Plans& plans) {
  const SearchAccount& search = plans.searched.plan().search;
  EXPECT_LT(search.seconds, search.greedy_seconds);
  EXPECT_GT(search.improved, 0);
}

TEST(Search, AnOperatorThatJoinedItsProducerGoesWithItsReaderInstead) {
  // Scaled by its rows' norms, a matrix is summed over rows. No schedule holds both reductions, and
  // to join the first, greedily, means that the product is written and read again.
  const Plans plans = plans_of(R"(graph g(%x: f32[4096, 4096]) {
    %q = mul(%x, %x)
    %s = reduce_sum(%q) {axes = [1], keepdims = 1}
    %m = div(%x, %s)
    %y = reduce_sum(%m) {axes = [0], keepdims = 0}
    return %y as "y"
  })");
  EXPECT_EQ(plans.greedy.text(), "0 row: mul + reduce_sum + div\n1 reduce: reduce_sum\n");
  EXPECT_EQ(plans.searched.text(), "0 row: mul + reduce_sum\n1 reduce: div + reduce_sum\n");
  expect_better(plans);
  EXPECT_EQ(plans.searched.edge("m", "y"), "fused");
  EXPECT_TRUE(plans.searched.edge("s", "m").starts_with("F-COST: apart, "))
      << plans.searched.edge("s", "m");
}

TEST(Search, AKernelThatIsFullIsCutWhereLeastCrosses) {
  // Four operators fit into a kernel. After four, two tensors cross; after three, one does.
  PlanSettings settings;
  settings.max_nodes = 4;
  const Plans plans = plans_of(R"(graph g(%x: f32[4096, 4096]) {
    %a = exp(%x)
    %b = neg(%a)
    %c = abs(%b)
    %d = tanh(%c)
    %e = mul(%d, %c)
    %y = sqrt(%e)
    return %y as "y"
  })",
                               settings);
  EXPECT_EQ(plans.greedy.text(), "0 map: exp + neg + abs + tanh\n1 map: mul + sqrt\n");
  EXPECT_EQ(plans.searched.text(), "0 map: exp + neg + abs\n1 map: tanh + mul + sqrt\n");
  expect_better(plans);
}

TEST(Search, WhatACallReadsIsNotMadeWithWhatWaitsForTheCall) {
  // The exp joins the add that a call reads, and so cannot join what the call's result goes into.
  const Plans plans = plans_of(R"(graph g(%x: f32[4096, 512], %r: f32[4096, 512]) {
    %a = add(%x, %r)
    %e = exp(%a)
    %v, %i = top_k(%a) {axis = 1, k = <512>, largest = 0, sorted = 1}
    %y = mul(%e, %v)
    return %y as "y"
  })");
  EXPECT_EQ(plans.greedy.text(), "0 map: add + exp\n1 extern: top_k\n2 map: mul\n");
  EXPECT_EQ(plans.searched.text(), "0 map: add\n1 extern: top_k\n2 map: exp + mul\n");
  expect_better(plans);
}

TEST(Search, WhatGreedyDidBestStays) {
  const std::string text = R"(graph g(%x: f32[4096, 4096]) {
    %a = exp(%x)
    %s = reduce_sum(%a) {axes = [1], keepdims = 1}
    %y = div(%a, %s)
    %z = reduce_max(%x) {axes = [0], keepdims = 0}
    return %y as "y", %z as "z"
  })";
  const Plans plans = plans_of(text);
  EXPECT_EQ(plans.searched.text(), plans.greedy.text());
  EXPECT_EQ(plans.searched.plan().search.improved, 0);
}

TEST(Search, TheSameGraphHasTheSamePlan) {
  const std::string text = R"(graph g(%x: f32[512, 512]) {
    %q = mul(%x, %x)
    %s = reduce_sum(%q) {axes = [1], keepdims = 1}
    %m = div(%x, %s)
    %t = tanh(%m)
    %y = reduce_sum(%t) {axes = [0], keepdims = 0}
    %z = reduce_max(%m) {axes = [0], keepdims = 0}
    return %y as "y", %z as "z"
  })";
  const std::string first = PlannedGraph(text).text();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(PlannedGraph(text).text(), first);
}

}  // namespace
}  // namespace opweld::testing
