// Past and new rows of keys and values that the attention which reads them stores as well.
#include <gmock/gmock.h>

#include "fusion/planning.h"

namespace opweld::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Of so many queries, with what is done to the new keys before, and what is given out beside %y.
std::string step(const std::string& queries, const std::string& given_out,
                 const std::string& new_keys = "%n") {
  return "graph g(%q: f32[b, 4, " + queries + ", 16], %p: f32[b, 2, p, 16], %n: f32[b, 2, " +
         queries + ", 16], %o: f32[b, 2, p, 16]) {\n%m = neg(%n)\n%k = concat(%p, " + new_keys +
         ") {axis = 2}\n%v = concat(%o, %n) {axis = 2}\n"
         "%y = attention(%q, %k, %v) {scale = 0.25, causal = \"bottom_right\"}\n"
         "return %y as \"y\", %m as \"m\"" +
         given_out + " }";
}

constexpr const char* kBoth = ", %k as \"present_k\", %v as \"present_v\"";

TEST(JoinedRows, AreStoredByTheAttention) {
  for (const std::string queries : {"1", "5", "17", "s"}) {
    const PlannedGraph plan(step(queries, kBoth));
    EXPECT_EQ(plan.text(), "0 map: neg\n1 attention: concat + concat + attention\n") << queries;
    EXPECT_EQ(plan.edge("k", "y"), "fused");
    EXPECT_EQ(plan.edge("v", "y"), "fused");
  }
}

TEST(JoinedRows, AreReadOnceAndWrittenOnce) {
  const PlannedGraph plan(step("1", kBoth));
  const Kernel& attention = plan.plan().kernels.back();
  const Bindings sizes{{"b", 3}, {"p", 10}};
  constexpr std::int64_t kHead = 16 * 4;  // bytes
  // The new row is one tensor for both.
  EXPECT_EQ(FusionPlan::bytes_read(attention).evaluate(sizes).value(),
            3 * (4 + 2 * 2 * 10 + 2) * kHead);
  EXPECT_EQ(FusionPlan::bytes_written(attention).evaluate(sizes).value(),
            3 * (4 + 2 * 2 * 11) * kHead);
}

TEST(JoinedRows, OneOfThemMayBeGivenOut) {
  const PlannedGraph plan(step("s", ", %v as \"present_v\""));
  EXPECT_EQ(plan.text(), "0 map: neg\n1 map: concat\n2 attention: concat + attention\n");
  EXPECT_EQ(plan.edge("k", "y"), "F-DOMAIN: it joins rows that nothing else reads");
  EXPECT_EQ(plan.edge("v", "y"), "fused");
}

// What makes the new rows is no index map, and has another reader here.
TEST(JoinedRows, WhatMakesThemIsAnotherKernel) {
  const PlannedGraph plan(step("s", kBoth, "%m"));
  EXPECT_EQ(plan.edge("k", "y"), "fused") << plan.text();
  EXPECT_THAT(plan.edge("m", "k"), StartsWith("F-")) << plan.text();
}

TEST(JoinedRows, AreLeftToThemselvesByClassicRules) {
  PlanSettings settings;
  settings.rules = RuleSet::Linear;
  const PlannedGraph plan(step("s", kBoth), settings);
  EXPECT_THAT(plan.edge("k", "y"), HasSubstr("F-GRAPH-OUTPUT"));
  settings = {};
  settings.level = FusionLevel::Ops;
  EXPECT_EQ(PlannedGraph(step("s", kBoth), settings).edge("k", "y"), "fused");
  settings.level = FusionLevel::None;
  EXPECT_THAT(PlannedGraph(step("s", kBoth), settings).edge("k", "y"), HasSubstr("F-LEVEL"));
}

}  // namespace
}  // namespace opweld::testing
