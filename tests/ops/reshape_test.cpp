#include "ops/run_op.h"

namespace opweld {
namespace {

TEST(Reshape, KeepsTheOrderOfElements) {
  expect_move({"reshape", {{2, 3}}, {}, {{"shape", Shape{3, 2}}}, {3, 2}, {0, 1, 2, 3, 4, 5}});
  expect_move({"reshape",
               {{6}},
               {},
               {{"shape", Shape{1, 2, 1, 3, 1}}},
               {1, 2, 1, 3, 1},
               {0, 1, 2, 3, 4, 5}});
}

TEST(Reshape, ScalarsAndEmptyTensors) {
  expect_move({"reshape", {{}}, {}, {{"shape", Shape{1, 1}}}, {1, 1}, {0}});
  expect_move({"reshape", {{1, 1}}, {}, {{"shape", Shape{}}}, {}, {0}});
  expect_move({"reshape", {{0, 3}}, {}, {{"shape", Shape{5, 0, 2}}}, {5, 0, 2}, {}});
}

TEST(Reshape, RefusesAnotherNumberOfElements) {
  const Tensor x = floats({2, 3}, {0, 1, 2, 3, 4, 5});
  expect_error(run_op("reshape", {x}, {{"shape", Shape{4, 2}}}),
               "x f32[2, 3] has 6 elements, the shape [4, 2] has 8");
  expect_error(run_op("reshape", {x}, {{"shape", Shape{-2, -3}}}), "negative");
  expect_error(run_op("reshape", {x}, {{"shape", Shape{Dim::overflow()}}}), "overflow");
}

TEST(Reshape, ProvesTheNumberOfElementsForAllSizes) {
  Graph graph;
  const Dim b = Dim::symbol("b");
  const Dim s = Dim::symbol("s");
  Value* x = graph.add_input("x", {DType::F32, {b, s, 384}});
  ASSERT_TRUE(build_node(graph, "reshape", {x}, {{"shape", Shape{b, s, 12, 32}}}));
  ASSERT_TRUE(build_node(graph, "reshape", {x}, {{"shape", Shape{b * s, 384}}}));
  EXPECT_THAT(graph.assumptions(), testing::IsEmpty());
}

TEST(Reshape, AssumesWhatItCannotProveAndChecksItAtRunTime) {
  Graph graph;
  const Dim s = Dim::symbol("s");
  const Dim t = Dim::symbol("t");
  Value* x = graph.add_input("x", {DType::F32, {s, 2}});
  graph.add_input("unused", {DType::F32, {t}});
  const auto node = build_node(graph, "reshape", {x}, {{"shape", Shape{2, t}}});
  ASSERT_TRUE(node.has_value());
  ASSERT_EQ(graph.assumptions().size(), 1U);
  graph.add_output("y", (*node)->result());
  const Tensor data = floats({3, 2}, {0, 1, 2, 3, 4, 5});
  EXPECT_TRUE(evaluate(graph, std::vector{data, zeros(DType::F32, {3})}).has_value());
  EXPECT_FALSE(evaluate(graph, std::vector{data, zeros(DType::F32, {4})}).has_value());
}

}  // namespace
}  // namespace opweld
