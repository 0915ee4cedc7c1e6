// Operations of a kernel, against counts made by hand.
#include "report/flops.h"

#include <gtest/gtest.h>

#include "ops/builder.h"

namespace opweld {
namespace {

// Of the whole graph as one kernel.
double flops(const std::string& text, const Bindings& sizes = {}) {
  const Graph graph = parse_graph(text).value();
  Kernel kernel;
  for (const auto& node : graph.nodes()) {
    if (node->op() != "constant") kernel.nodes.push_back(node.get());
  }
  complete_kernel(kernel);
  const auto counted = flops_of(kernel, sizes);
  EXPECT_TRUE(counted) << counted.error().message;
  return counted ? *counted : -1;
}

TEST(Flops, AMatmulCountsTwoForEachProduct) {
  EXPECT_EQ(flops(R"(graph g(%a: f32[b, 3, 5], %w: f32[5, 7]) {
              %y = matmul(%a, %w) return %y as "y" })",
                  {{"b", 4}}),
            2 * 4 * 3 * 5 * 7);
}

TEST(Flops, OfAGroupedMatmulEachRowHasOneMatrix) {
  EXPECT_EQ(flops(R"(graph g(%x: f32[6, 5], %w: f32[3, 5, 7], %n: i64[3]) {
              %y = grouped_matmul(%x, %w, %n) return %y as "y" })"),
            2 * 6 * 5 * 7);
}

TEST(Flops, AnAttentionCountsItsTwoProducts) {
  // Scores of 2 x 4 heads, 3 queries and 10 keys over 8, and their weighted sums of 16.
  EXPECT_EQ(flops(R"(graph g(%q: f32[2, 4, 3, 8], %k: f32[2, 4, 10, 8], %v: f32[2, 4, 10, 16]) {
              %y = attention(%q, %k, %v) return %y as "y" })"),
            2 * (2 * 4 * 3 * 10) * (8 + 16));
}

TEST(Flops, SharedHeadsOfKeysAreNoLessWork) {
  EXPECT_EQ(flops(R"(graph g(%q: f32[1, 4, 3, 8], %k: f32[1, 2, 10, 8], %v: f32[1, 2, 10, 8]) {
              %y = attention(%q, %k, %v) return %y as "y" })"),
            2 * (4 * 3 * 10) * (8 + 8));
}

TEST(Flops, PointwiseOperatorsCountByElementAndReductionsByWhatTheyRead) {
  EXPECT_EQ(flops(R"(graph g(%x: f32[3, 5], %y: f32[5]) {
              %s = add(%x, %y) %m = mul(%s, %s) return %m as "m" })"),
            2 * 3 * 5);
  EXPECT_EQ(flops(R"(graph g(%x: f32[3, 5]) {
              %s = reduce_sum(%x) {axes = [1]} return %s as "s" })"),
            3 * 5);
}

TEST(Flops, WhatOnlyMovesElementsCountsNothing) {
  EXPECT_EQ(flops(R"(graph g(%x: f32[3, 5]) {
              %t = transpose(%x) {permutation = [1, 0]} return %t as "t" })"),
            0);
}

// A norm is what its body is made of: more than an operation an element, far less than a matmul.
TEST(Flops, ACompositeCountsAsItsBody) {
  const double counted = flops(R"(graph g(%x: f32[4, 100]) {
    %y = softmax(%x) {axis = -1} return %y as "y" })");
  // The maximum, the difference, the exponential, the sum, the quotient: 4 and the exponential's.
  EXPECT_GE(counted, 5 * 400);
  EXPECT_LE(counted, 30 * 400);
}

TEST(Flops, ASizeThatIsNotKnownIsAnError) {
  const Graph graph =
      parse_graph(R"(graph g(%x: f32[n]) { %y = neg(%x) return %y as "y" })").value();
  Kernel kernel;
  kernel.nodes.push_back(graph.nodes().front().get());
  complete_kernel(kernel);
  EXPECT_FALSE(flops_of(kernel, {}));
}

}  // namespace
}  // namespace opweld
