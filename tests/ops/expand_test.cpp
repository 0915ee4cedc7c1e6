#include "ops/run_op.h"

namespace opweld {
namespace {

void expect_expand(const Sizes& x, const Sizes& target, const std::vector<int>& sources) {
  expect_move(
      {"expand", {x}, {}, {{"shape", Shape(target.begin(), target.end())}}, target, sources});
}

TEST(Expand, RepeatsAlongUnitAndNewAxes) {
  expect_expand({3}, {2, 3}, {0, 1, 2, 0, 1, 2});
  expect_expand({2, 1, 3}, {2, 2, 2, 3},
                {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5, 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
  expect_expand({2, 3}, {2, 3}, {0, 1, 2, 3, 4, 5});
}

TEST(Expand, ScalarsAndEmptyTensors) {
  expect_expand({}, {}, {0});
  expect_expand({}, {3}, {0, 0, 0});
  expect_expand({1, 1}, {0, 4}, {});
  expect_expand({0, 1}, {2, 0, 3}, {});
}

TEST(Expand, RefusesWhatDoesNotBroadcast) {
  const Tensor x = floats({2, 3}, {0, 1, 2, 3, 4, 5});
  expect_error(run_op("expand", {x}, {{"shape", Shape{3}}}), "rank 2, more than the 1 axes");
  expect_error(run_op("expand", {x}, {{"shape", Shape{4, 3}}}), "axis 0 of x");
  expect_error(run_op("expand", {x}, {{"shape", Shape{2, 1}}}), "axis 1 of x");
}

TEST(Expand, SymbolicSizesAreTheTargetsOwn) {
  Graph graph;
  const Dim s = Dim::symbol("s");
  const Dim t = Dim::symbol("t");
  Value* x = graph.add_input("x", {DType::F32, {1, s}});
  const auto proven = build_node(graph, "expand", {x}, {{"shape", Shape{t, s}}});
  ASSERT_TRUE(proven.has_value());
  EXPECT_EQ((*proven)->result()->shape(), (Shape{t, s}));
  EXPECT_THAT(graph.assumptions(), testing::IsEmpty());
  ASSERT_TRUE(build_node(graph, "expand", {x}, {{"shape", Shape{2, t}}}));
  ASSERT_EQ(graph.assumptions().size(), 1U);
  EXPECT_EQ(graph.assumptions()[0].left, s);
  EXPECT_EQ(graph.assumptions()[0].right, t);
}

}  // namespace
}  // namespace opweld
