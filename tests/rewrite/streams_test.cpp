// Operators that the user put on different streams never become one.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ops/builder.h"
#include "rewrite/pipeline.h"

namespace opweld {
namespace {

// Spelled out: what the rewrites make of each is named beside it.
struct Spelling {
  const char* becomes;
  const char* text;
};

const Spelling kSpellings[] = {
    {"silu", R"(graph g(%x: f32[b, 8]) {
      %s = sigmoid(%x)
      %y = mul(%x, %s)
      return %y as "y" })"},
    {"gelu", R"(graph g(%x: f32[b, 8]) {
      %half = constant {value = f32[] {0.5}}
      %one = constant {value = f32[] {1.0}}
      %root = constant {value = f32[] {1.4142135}}
      %d = div(%x, %root)
      %e = erf(%d)
      %p = add(%e, %one)
      %q = mul(%x, %p)
      %y = mul(%q, %half)
      return %y as "y" })"},
    {"softmax", R"(graph g(%x: f32[b, 8]) {
      %m = reduce_max(%x) {axes = [1]}
      %s = sub(%x, %m)
      %e = exp(%s)
      %t = reduce_sum(%e) {axes = [1]}
      %y = div(%e, %t)
      return %y as "y" })"},
    {"rms_norm", R"(graph g(%x: f32[b, 8]) {
      %eps = constant {value = f32[] {1e-05}}
      %q = mul(%x, %x)
      %m = reduce_mean(%q) {axes = [1]}
      %p = add(%m, %eps)
      %r = rsqrt(%p)
      %y = mul(%x, %r)
      return %y as "y" })"},
    {"attention", R"(graph g(%q: f32[1, 2, s, 8], %k: f32[1, 2, s, 8], %v: f32[1, 2, s, 8]) {
      %c = constant {value = f32[] {0.5}}
      %t = transpose(%k) {permutation = [0, 1, 3, 2]}
      %m = matmul(%q, %t)
      %d = mul(%m, %c)
      %p = softmax(%d) {axis = -1}
      %y = matmul(%p, %v)
      return %y as "y" })"},
    {"slice", R"(graph g(%x: f32[b, 8]) {
      %u = constant {value = f32[8, 8] random 1}
      %v = constant {value = f32[8, 8] random 2}
      %m = matmul(%x, %u)
      %n = matmul(%x, %v)
      %s = softmax(%m) {axis = -1}
      %t = softmax(%n) {axis = -1}
      return %s as "s", %t as "t" })"},
};

// The spelling with every operator on the stream that `stream` gives for its number, rewritten.
template <typename Stream>
Graph rewritten(const Spelling& spelling, const Stream& stream) {
  Graph graph = parse_graph(spelling.text).value();
  int number = 0;
  for (const auto& node : graph.nodes()) {
    if (node->op() == "constant") continue;
    Source source = node->source();
    source.stream = stream(number++);
    node->set_source(std::move(source));
  }
  for (const RewritePass& pass : rewrite_passes({})) EXPECT_TRUE(pass.run(graph)) << pass.name;
  return graph;
}

const Node* find(const Graph& graph, std::string_view op) {
  const auto found =
      std::ranges::find_if(graph.nodes(), [&](const auto& node) { return node->op() == op; });
  return found == graph.nodes().end() ? nullptr : found->get();
}

TEST(Streams, WhatIsOnOneBecomesOneOperatorOnIt) {
  for (const Spelling& spelling : kSpellings) {
    for (const char* name : {"", "copy"}) {
      const Graph graph = rewritten(spelling, [&](int) { return name; });
      const Node* const raised = find(graph, spelling.becomes);
      ASSERT_NE(raised, nullptr) << spelling.becomes;
      EXPECT_EQ(raised->source().stream, name) << spelling.becomes;
    }
  }
}

TEST(Streams, WhatIsOnTwoDoesNot) {
  for (const Spelling& spelling : kSpellings) {
    const Graph alternating =
        rewritten(spelling, [](int number) { return number % 2 == 0 ? "a" : "b"; });
    EXPECT_EQ(find(alternating, spelling.becomes), nullptr) << spelling.becomes;
  }
}

TEST(Streams, AnOperatorOnAnotherStaysWhatItIs) {
  for (const Spelling& spelling : kSpellings) {
    std::vector<std::string> ops;
    const Graph original = parse_graph(spelling.text).value();
    for (const auto& node : original.nodes()) {
      if (node->op() != "constant") ops.push_back(node->op());
    }
    for (int odd = 0; odd < static_cast<int>(ops.size()); ++odd) {
      const Graph graph =
          rewritten(spelling, [&](int number) { return number == odd ? "elsewhere" : "here"; });
      std::vector<std::string> elsewhere;
      for (const auto& node : graph.nodes()) {
        if (node->source().stream == "elsewhere") elsewhere.push_back(node->op());
      }
      EXPECT_EQ(elsewhere, std::vector{ops[static_cast<std::size_t>(odd)]})
          << spelling.becomes << ", " << odd;
    }
  }
}

TEST(Streams, EqualOperatorsOnTwoStayTwo) {
  constexpr const char* kText = R"(graph g(%x: f32[b]) {
    %a = exp(%x) @"a" stream "one"
    %b = exp(%x) @"b" stream "two"
    %c = exp(%x) @"c" stream "one"
    return %a as "a", %b as "b", %c as "c" })";
  Graph graph = parse_graph(kText).value();
  for (const RewritePass& pass : rewrite_passes({})) ASSERT_TRUE(pass.run(graph));
  EXPECT_EQ(graph.num_nodes(), 2);
}

TEST(Streams, TransposesOnTwoDoNotMeet) {
  for (const char* second : {"one", "two"}) {
    Graph graph = parse_graph(fmt::format(R"(graph g(%x: f32[b, s, 8]) {{
      %a = transpose(%x) {{permutation = [1, 0, 2]}} @"a" stream "one"
      %b = transpose(%a) {{permutation = [1, 2, 0]}} @"b" stream "{}"
      return %b as "b" }})",
                                          second))
                      .value();
    for (const RewritePass& pass : rewrite_passes({})) ASSERT_TRUE(pass.run(graph));
    EXPECT_EQ(graph.num_nodes(), std::string_view(second) == "one" ? 1 : 2);
  }
}

}  // namespace
}  // namespace opweld
