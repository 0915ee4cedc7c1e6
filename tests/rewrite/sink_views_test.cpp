#include "rewrite/sink_views.h"

#include "rewrite/dce.h"
#include "rewrite/raising.h"
#include "rewrite/simplify.h"

namespace opweld {
namespace {

Status sink_and_simplify(Graph& graph) {
  if (Status sunk = sink_views(graph); !sunk) return sunk;
  if (Status simplified = simplify(graph); !simplified) return simplified;
  return eliminate_dead_code(graph);
}

Status simplify_and_sweep(Graph& graph) {
  if (Status simplified = simplify(graph); !simplified) return simplified;
  return eliminate_dead_code(graph);
}

const RaisingCase kCase = {sink_views, {{"s", 5}, {"t", 3}}};

// What is done to the product of a convolution or a flattened linear, behind views.
std::string after(const std::string& steps, const std::string& more = "") {
  return "graph g(%a: f32[s, 6], %b: f32[6, 4], %bias: f32[4], %r: f32[4, s]) {\n"
         "%two = constant {value = f32[] {2.0}}\n %m = matmul(%a, %b)\n %p = add(%m, %bias)\n" +
         steps + " return %y as \"y\"" + more + "\n}";
}

TEST(SinkViews, MovesBehindOperatorsOfOneOperand) {
  EXPECT_EQ(raised(after("%t = transpose(%p) {permutation = [1, 0]}\n %y = gelu(%t)\n"), kCase),
            "matmul add gelu transpose");
  EXPECT_EQ(raised(after("%t = reshape(%p) {shape = <s, 2, 2>}\n %y = mul(%two, %t)\n"), kCase),
            "matmul add mul reshape");
  EXPECT_EQ(raised(after("%t = reshape(%p) {shape = <s, 2, 2>}\n %y = clip(%t, %two)\n"), kCase),
            "matmul add clip reshape");
}

TEST(SinkViews, MovesBehindSeveralOperatorsAndViews) {
  EXPECT_EQ(raised(after("%t = reshape(%p) {shape = <1, s, 4>}\n"
                         "%u = transpose(%t) {permutation = [0, 2, 1]}\n %v = tanh(%u)\n"
                         "%w = reshape(%v) {shape = <2, 2, s>}\n %x = div(%w, %two)\n"
                         "%y = cast(%x) {to = f16}\n"),
                   kCase),
            "matmul add tanh div cast reshape transpose reshape");
}

// The other operand is read as it lies behind the inverse of the transpose.
TEST(SinkViews, MovesTransposesBehindOperatorsOfSeveralTensors) {
  EXPECT_EQ(raised(after("%t = transpose(%p) {permutation = [1, 0]}\n %y = add(%t, %r)\n"), kCase),
            "matmul add transpose add transpose");
  EXPECT_EQ(raised(after("%t = transpose(%p) {permutation = [1, 0]}\n %y = sub(%r, %t)\n"), kCase),
            "matmul add transpose sub transpose");
  // One that spreads over the result.
  EXPECT_EQ(raised("graph g(%a: f32[2, s, 6], %b: f32[6, 4], %r: f32[4, 1], %q: f32[s]) {\n"
                   " %m = matmul(%a, %b)\n %t = transpose(%m) {permutation = [0, 2, 1]}\n"
                   " %u = mul(%t, %r)\n %y = add(%q, %u)\n return %y as \"y\"\n}",
                   kCase),
            "matmul reshape transpose mul reshape transpose add transpose");
  // Both behind a product: one view is left.
  EXPECT_EQ(raised("graph g(%a: f32[2, s, 6], %b: f32[6, 4]) {\n"
                   " %m = matmul(%a, %b)\n %t = transpose(%m) {permutation = [0, 2, 1]}\n"
                   " %n = matmul(%a, %b)\n %u = transpose(%n) {permutation = [0, 2, 1]}\n"
                   " %y = add(%t, %u)\n return %y as \"y\"\n}",
                   {sink_and_simplify, {{"s", 5}}}),
            "matmul matmul add transpose");
}

// Residuals in NCHW beside products of rows in NHWC.
TEST(SinkViews, MovesConversionsOfFormats) {
  EXPECT_EQ(raised("graph g(%x: f32[s, 4, t, 3], %w: f32[4, 4]) {\n"
                   " %l = transpose(%x) {permutation = [0, 2, 3, 1]}\n %m = matmul(%l, %w)\n"
                   " %f = transpose(%m) {permutation = [0, 3, 1, 2]}\n %s = add(%x, %f)\n"
                   " %y = relu(%s)\n return %y as \"y\"\n}",
                   {sink_and_simplify, {{"s", 2}, {"t", 5}}}),
            "transpose matmul transpose add relu transpose");
}

// Channels that went in front of the positions behind a convolution, and go back behind them.
TEST(Simplify, ConversionsAroundAReshapeMeet) {
  const RaisingCase simplifying = {simplify_and_sweep, {{"n", 2}, {"h", 3}, {"w", 5}}};
  const auto there_and_back = [&](const std::string& from, const std::string& there,
                                  const std::string& apart, const std::string& back) {
    return raised("graph g(%sizes: f32[h, w], %x: f32[" + from +
                      "]) {\n %a = transpose(%x) {permutation = [" + there +
                      "]}\n %b = reshape(%a) {shape = <" + apart +
                      ">}\n %c = transpose(%b) {permutation = [" + back +
                      "]}\n %y = neg(%c)\n return %y as \"y\"\n}",
                  simplifying);
  };
  EXPECT_EQ(there_and_back("n, h*w, 4", "0, 2, 1", "n, 4, h, w", "0, 2, 3, 1"), "reshape neg");
  EXPECT_EQ(there_and_back("n, h, w, 4", "0, 3, 1, 2", "n, 4, h*w", "0, 2, 1"), "reshape neg");
  EXPECT_EQ(there_and_back("n, 4, h*w", "1, 0, 2", "4, n, h, w", "1, 0, 2, 3"), "reshape neg");
  // The positions change places; and so do parts of what was one axis.
  EXPECT_EQ(there_and_back("n, h*w, 4", "0, 2, 1", "n, 4, h, w", "0, 3, 2, 1"),
            "transpose reshape transpose neg");
  EXPECT_EQ(there_and_back("n, h*w, 4", "0, 2, 1", "n, 2, 2, h*w", "0, 1, 3, 2"),
            "transpose reshape transpose neg");
  // A reshape that joins what the first transpose brought together.
  EXPECT_EQ(there_and_back("n, h*w, 4", "0, 2, 1", "n, 4*h*w", "1, 0"),
            "transpose reshape transpose neg");
}

TEST(SinkViews, LeavesWhatIsReadTwice) {
  EXPECT_EQ(
      raised(after("%t = transpose(%p) {permutation = [1, 0]}\n %y = gelu(%t)\n", ", %t as \"t\""),
             kCase),
      "matmul add transpose gelu");
  EXPECT_EQ(
      raised(after("%t = transpose(%p) {permutation = [1, 0]}\n %y = gelu(%t)\n", ", %p as \"p\""),
             kCase),
      "matmul add transpose gelu");
  EXPECT_EQ(raised(after("%t = transpose(%p) {permutation = [1, 0]}\n %u = tanh(%t)\n"
                         "%y = mul(%u, %t)\n"),
                   kCase),
            "matmul add transpose tanh mul");
}

TEST(SinkViews, LeavesViewsOfAnythingElse) {
  EXPECT_EQ(raised("graph g(%x: f32[s, t]) { %t = transpose(%x) {permutation = [1, 0]} "
                   "%y = gelu(%t) return %y as \"y\" }",
                   kCase),
            "transpose gelu");
  EXPECT_EQ(raised(after("%q = softmax(%p) {axis = 1}\n"
                         "%t = transpose(%q) {permutation = [1, 0]}\n %y = gelu(%t)\n"),
                   kCase),
            "matmul add softmax transpose gelu");
  EXPECT_EQ(raised(after("%t = slice(%p) {starts = <0, 0>, sizes = <s, 2>, steps = [1, 1]}\n"
                         "%y = gelu(%t)\n"),
                   kCase),
            "matmul add slice gelu");
}

TEST(SinkViews, LeavesNumbersThatMakeTheResultLarger) {
  EXPECT_EQ(raised("graph g(%a: f32[s, 6], %b: f32[6, 4]) {\n"
                   "%n = constant {value = f32[1, 1, 1, 1] {2.0}}\n %m = matmul(%a, %b)\n"
                   "%t = reshape(%m) {shape = <s, 2, 2>}\n %y = mul(%t, %n)\n"
                   "return %y as \"y\"\n}",
                   kCase),
            "matmul reshape mul");
}

}  // namespace
}  // namespace opweld
