#include "ops/run_op.h"

namespace opweld {
namespace {

Attributes on_axis(std::int64_t axis) {
  return {{"axis", axis}};
}
Attributes batched(std::int64_t batch_dims) {
  return {{"batch_dims", batch_dims}};
}

TEST(Gather, TakesSlicesWithIndicesFromEitherEnd) {
  expect_move({"gather",
               {{3, 4}},
               {ints({4}, {2, 0, -1, -3})},
               on_axis(0),
               {4, 4},
               {8, 9, 10, 11, 0, 1, 2, 3, 8, 9, 10, 11, 0, 1, 2, 3}});
  expect_move({"gather",
               {{3, 4}},
               {ints({3, 2}, {3, 0, -4, 1, 2, 2})},
               on_axis(1),
               {3, 3, 2},
               {3, 0, 0, 1, 2, 2, 7, 4, 4, 5, 6, 6, 11, 8, 8, 9, 10, 10}});
  expect_move({"gather",
               {{2, 3, 2}},
               {ints({2}, {2, -3}, DType::I32)},
               on_axis(1),
               {2, 2, 2},
               {4, 5, 0, 1, 10, 11, 6, 7}});
}

TEST(Gather, ScalarAndEmptyIndices) {
  expect_move({"gather", {{5}}, {ints({}, {-2})}, on_axis(0), {}, {3}});
  expect_move({"gather", {{3, 2}}, {ints({0, 2}, {})}, on_axis(0), {0, 2, 2}, {}});
  expect_move({"gather", {{0, 2}}, {ints({0}, {})}, on_axis(0), {0, 2}, {}});
  expect_move({"gather", {{2, 0}}, {ints({1}, {1})}, on_axis(0), {1, 0}, {}});
}

TEST(Gather, AnIndexOutOfRangeIsAnError) {
  const Tensor x = floats({3}, {0, 1, 2});
  expect_error(run_op("gather", {x, ints({2}, {0, 3})}, on_axis(0)),
               "index 3 (element 1 of indices) is out of range for axis 0 of size 3");
  expect_error(run_op("gather", {x, ints({1}, {-4})}, on_axis(0)), "index -4");
  expect_error(run_op("gather", {floats({0}, {}), ints({1}, {0})}, on_axis(0)), "of size 0");
  constexpr double kLowest = -9223372036854775808.0;
  expect_error(run_op("gather", {x, ints({1}, {kLowest})}, on_axis(0)), "out of range");
}

TEST(Gather, TheErrorNamesTheNode) {
  Graph graph;
  Value* x = graph.add_input("x", {DType::F32, {3}});
  Value* indices = graph.add_input("i", {DType::I64, {1}});
  const auto node =
      build_node(graph, "gather", {x, indices}, on_axis(0), {"/embed/Gather", "Gather", ""});
  ASSERT_TRUE(node.has_value());
  graph.add_output("y", (*node)->result());
  expect_error(evaluate(graph, std::vector{floats({3}, {0, 1, 2}), ints({1}, {9})}),
               "/embed/Gather");
}

TEST(Gather, RefusesOtherIndicesAndAxes) {
  const Tensor x = floats({3}, {0, 1, 2});
  expect_error(run_op("gather", {x, floats({1}, {0})}, on_axis(0)), "indices");
  expect_error(run_op("gather", {x, ints({1}, {0})}, on_axis(1)), "axis 1 is out of range");
  expect_error(run_op("gather", {floats({}, {0}), ints({1}, {0})}, on_axis(0)),
               "a scalar has no axes");
}

TEST(Gather, SymbolicEmbedding) {
  Graph graph;
  const Dim b = Dim::symbol("b");
  const Dim s = Dim::symbol("s");
  Value* table = graph.add_input("table", {DType::F32, {30522, 384}});
  Value* ids = graph.add_input("ids", {DType::I64, {b, s}});
  const auto node = build_node(graph, "gather", {table, ids}, on_axis(0));
  ASSERT_TRUE(node.has_value());
  EXPECT_EQ((*node)->result()->shape(), (Shape{b, s, 384}));
}

TEST(GatherElements, TakesAlongAnAxis) {
  expect_move({"gather_elements",
               {{3, 3}},
               {ints({3, 2}, {0, -1, 2, 2, -3, 1})},
               on_axis(1),
               {3, 2},
               {0, 2, 5, 5, 6, 7}});
  expect_move({"gather_elements",
               {{3, 4}},
               {ints({2, 3}, {2, -1, 0, 0, 1, -3}, DType::I32)},
               on_axis(0),
               {2, 3},
               {8, 9, 2, 0, 5, 2}});
  expect_move({"gather_elements",
               {{2, 2, 2}},
               {ints({2, 1, 2}, {1, 0, -2, -1})},
               on_axis(1),
               {2, 1, 2},
               {2, 1, 4, 7}});
  expect_move({"gather_elements", {{2, 3}}, {ints({2, 0}, {})}, on_axis(1), {2, 0}, {}});
}

TEST(GatherElements, Errors) {
  const Tensor x = floats({2, 2}, {0, 1, 2, 3});
  expect_error(run_op("gather_elements", {x, ints({1, 2}, {0, 2})}, on_axis(0)),
               "index 2 (element 1 of indices) is out of range for axis 0 of size 2");
  expect_error(run_op("gather_elements", {x, ints({1, 1}, {-3})}, on_axis(1)), "index -3");
  expect_error(run_op("gather_elements", {x, ints({2}, {0, 1})}, on_axis(0)),
               "indices have rank 1, x has rank 2");
  expect_error(run_op("gather_elements", {x, ints({1, 3}, {0, 0, 0})}, on_axis(0)),
               "must not exceed");
}

TEST(GatherNd, AddressesElementsAndBlocks) {
  expect_move(
      {"gather_nd", {{2, 3}}, {ints({3, 2}, {0, 0, 1, -1, -2, 1})}, batched(0), {3}, {0, 5, 1}});
  expect_move({"gather_nd",
               {{2, 2, 3}},
               {ints({2, 1}, {1, -2})},
               batched(0),
               {2, 2, 3},
               {6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5}});
  expect_move({"gather_nd",
               {{2, 2, 3}},
               {ints({2, 1, 2}, {0, 1, 1, 0})},
               batched(0),
               {2, 1, 3},
               {3, 4, 5, 6, 7, 8}});
  expect_move({"gather_nd", {{2, 3}}, {ints({2}, {1, 1})}, batched(0), {}, {4}});
  expect_move({"gather_nd", {{2}}, {ints({0, 1}, {})}, batched(0), {0}, {}});
}

TEST(GatherNd, WithBatchDimensions) {
  expect_move({"gather_nd",
               {{2, 3, 2}},
               {ints({2, 2, 1}, {2, 0, -1, -3})},
               batched(1),
               {2, 2, 2},
               {4, 5, 0, 1, 10, 11, 6, 7}});
  expect_move(
      {"gather_nd", {{2, 3, 2}}, {ints({2, 1}, {2, -2})}, batched(1), {2, 2}, {4, 5, 8, 9}});
}

TEST(GatherNd, Errors) {
  const Tensor x = floats({2, 2}, {0, 1, 2, 3});
  expect_error(run_op("gather_nd", {x, ints({1, 2}, {0, 2})}, batched(0)),
               "index 2 (element 1 of indices) is out of range for axis 1 of size 2");
  expect_error(run_op("gather_nd", {x, ints({1, 3}, {0, 0, 0})}, batched(0)),
               "address 3 axes after 0 batch axes, x has rank 2");
  expect_error(run_op("gather_nd", {x, ints({}, {0})}, batched(0)), "at least one axis");
  expect_error(run_op("gather_nd", {x, ints({1, 1}, {0})}, batched(1)), "batch axis 0");
  expect_error(run_op("gather_nd", {x, ints({2, 1}, {0, 0})}, batched(2)), "batch_dims 2");
  Graph graph;
  Value* data = graph.add_input("x", {DType::F32, {2}});
  Value* unknown = graph.add_input("i", {DType::I64, {1, Dim::symbol("k")}});
  const auto node = build_node(graph, "gather_nd", {data, unknown}, batched(0));
  ASSERT_FALSE(node.has_value());
  EXPECT_THAT(node.error().message, testing::HasSubstr("must be known"));
}

}  // namespace
}  // namespace opweld
