// What became of operators that rewrites took away.
#include "rewrite/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/builder.h"
#include "rewrite/pipeline.h"

namespace opweld {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The history of a graph through all passes.
class Rewritten {
 public:
  explicit Rewritten(std::string_view text, const RewriteOptions& options = {})
      : graph_(parse_graph(text).value()), history_(graph_) {
    for (const RewritePass& pass : rewrite_passes(options)) {
      EXPECT_TRUE(pass.run(graph_)) << pass.name;
      history_.record(pass.name, graph_);
    }
  }

  [[nodiscard]] History::Outcome outcome(const std::string& name) const {
    return history_.outcome(name);
  }
  [[nodiscard]] const History& history() const { return history_; }
  [[nodiscard]] const Graph& graph() const { return graph_; }

 private:
  Graph graph_;
  History history_;
};

TEST(History, PartsOfAnOperatorThatWasFound) {
  const Rewritten rewritten(R"(graph g(%x: f32[n, 16]) {
    %half = constant {value = f32[] {0.5}}
    %one = constant {value = f32[] {1.0}}
    %root = constant {value = f32[] {1.4142135}}
    %d = div(%x, %root) @"Div"
    %e = erf(%d) @"Erf"
    %p = add(%e, %one) @"Add"
    %q = mul(%x, %p) @"Mul"
    %g = mul(%q, %half) @"Scale"
    %y = neg(%g) @"Neg"
    return %y as "y"
  })");
  for (const char* name : {"Div", "Erf", "Add", "Mul"}) {
    const History::Outcome outcome = rewritten.outcome(name);
    EXPECT_EQ(outcome.fate, History::Fate::Part) << name;
    EXPECT_EQ(outcome.pass, "raise-gelu") << name;
    EXPECT_THAT(outcome.into, ElementsAre("Scale")) << name;
  }
  EXPECT_EQ(rewritten.outcome("Scale").fate, History::Fate::Kept);
  EXPECT_EQ(rewritten.outcome("Neg").fate, History::Fate::Kept);
}

TEST(History, NamesThatTheModelLacksAreThoseOfTheLog) {
  const Rewritten rewritten(R"(graph g(%x: f32[n, 16]) {
    %s = sigmoid(%x)
    %y = mul(%x, %s)
    return %y as "y"
  })");
  ASSERT_EQ(rewritten.graph().num_nodes(), 1U);
  const std::string silu = rewritten.graph().nodes().front()->display_name();
  EXPECT_TRUE(silu.starts_with("silu_"));
  ASSERT_EQ(rewritten.history().operators().size(), 2U);
  for (const History::Operator& each : rewritten.history().operators()) {
    EXPECT_EQ(rewritten.outcome(each.name).fate, History::Fate::Part) << each.name;
    EXPECT_THAT(rewritten.outcome(each.name).into, ElementsAre(silu)) << each.name;
  }
  EXPECT_THAT(rewritten.history().operators()[0].tensors, ElementsAre("s"));
}

TEST(History, EqualOperatorsAreComputedOnce) {
  const Rewritten rewritten(R"(graph g(%x: f32[n]) {
    %a = exp(%x) @"A"
    %b = exp(%x) @"B"
    %c = neg(%a) @"NegA"
    %d = neg(%b) @"NegB"
    %y = tanh(%c) @"Y"
    %z = abs(%d) @"Z"
    return %y as "y", %z as "z"
  })");
  EXPECT_EQ(rewritten.outcome("B").fate, History::Fate::Equal);
  EXPECT_THAT(rewritten.outcome("B").into, ElementsAre("A"));
  EXPECT_EQ(rewritten.outcome("NegB").fate, History::Fate::Equal);
  EXPECT_THAT(rewritten.outcome("NegB").into, ElementsAre("NegA"));
  EXPECT_EQ(rewritten.outcome("A").fate, History::Fate::Kept);
}

TEST(History, WhatDependsOnNoInputIsComputedBefore) {
  const Rewritten rewritten(R"(graph g(%x: f32[4]) {
    %c = constant {value = f32[4] {1.0, 2.0, 3.0, 4.0}}
    %e = exp(%c) @"Exp"
    %n = neg(%e) @"Neg"
    %y = mul(%x, %n) @"Mul"
    return %y as "y"
  })");
  for (const char* name : {"Exp", "Neg"}) {
    EXPECT_EQ(rewritten.outcome(name).fate, History::Fate::Computed) << name;
    EXPECT_EQ(rewritten.outcome(name).pass, "fold-constants") << name;
    EXPECT_THAT(rewritten.outcome(name).into, IsEmpty()) << name;
  }
}

TEST(History, WhatNobodyReadsIsLeftOut) {
  const Rewritten rewritten(R"(graph g(%x: f32[n]) {
    %e = exp(%x) @"Exp"
    %n = neg(%e) @"Neg"
    %y = tanh(%x) @"Tanh"
    return %y as "y"
  })");
  EXPECT_EQ(rewritten.outcome("Exp").fate, History::Fate::Unread);
  EXPECT_EQ(rewritten.outcome("Neg").fate, History::Fate::Unread);
}

TEST(History, WhatChangesNothingIsPassedBy) {
  const Rewritten rewritten(R"(graph g(%x: f32[n, m]) {
    %e = exp(%x) @"Exp"
    %t = transpose(%e) {permutation = [1, 0]} @"There"
    %b = transpose(%t) {permutation = [1, 0]} @"Back"
    %y = neg(%b) @"Neg"
    return %y as "y"
  })");
  EXPECT_EQ(rewritten.outcome("Back").fate, History::Fate::Bypassed);
  EXPECT_THAT(rewritten.outcome("Back").into, ElementsAre("Exp"));
  EXPECT_EQ(rewritten.outcome("There").fate, History::Fate::Bypassed);
}

TEST(History, MergedMatmulsKeepTheirNames) {
  const Rewritten rewritten(R"(graph g(%x: f32[n, 8]) {
    %v = constant {value = f32[8, 4] random 1}
    %w = constant {value = f32[8, 4] random 2}
    %q = matmul(%x, %v) @"Q"
    %k = matmul(%x, %w) @"K"
    %t = transpose(%k) {permutation = [1, 0]} @"T"
    %y = matmul(%q, %t) @"Y"
    return %y as "y"
  })");
  EXPECT_EQ(rewritten.outcome("Q").fate, History::Fate::Kept);
  std::vector<std::string> merged;
  for (const auto& node : rewritten.graph().nodes()) {
    if (node->source().operators == 2) merged = joined_names(*node);
  }
  EXPECT_THAT(merged, ElementsAre("Q", "K"));
}

// As long as a hostile model may make it: no recursion.
TEST(History, FollowsLongChains) {
  std::string text = "graph g(%x: f32[4]) {\n%c0 = constant {value = f32[4] random 1}\n";
  constexpr int kLength = 20000;
  for (int i = 1; i <= kLength; ++i) text += fmt::format("%c{} = neg(%c{})\n", i, i - 1);
  text += fmt::format("%y = add(%x, %c{})\nreturn %y as \"y\"\n}}", kLength);
  const Rewritten rewritten(text);
  const auto& first = rewritten.history().operators().front();
  EXPECT_EQ(rewritten.outcome(first.name).fate, History::Fate::Computed);
}

}  // namespace
}  // namespace opweld
