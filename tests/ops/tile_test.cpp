#include "ops/run_op.h"

namespace opweld {
namespace {

void expect_tile(const Sizes& x, const Shape& repeats, const Sizes& sizes,
                 const std::vector<int>& sources) {
  expect_move({"tile", {x}, {}, {{"repeats", repeats}}, sizes, sources});
}

TEST(Tile, RepeatsTheWholeTensor) {
  expect_tile({2, 3}, {2, 2}, {4, 6},
              {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5, 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
  expect_tile({2, 1, 2}, {1, 3, 2}, {2, 3, 4},
              {0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3});
  expect_tile({2, 3}, {1, 1}, {2, 3}, {0, 1, 2, 3, 4, 5});
}

TEST(Tile, ScalarsAndNoRepeats) {
  expect_tile({}, {}, {}, {0});
  expect_tile({3}, {0}, {0}, {});
  expect_tile({2, 0}, {3, 2}, {6, 0}, {});
}

TEST(Tile, RefusesRepeatsThatDoNotFit) {
  const Tensor x = floats({2}, {0, 1});
  expect_error(run_op("tile", {x}, {{"repeats", Shape{1, 2}}}), "2 repeats are given");
  expect_error(run_op("tile", {x}, {{"repeats", Shape{-1}}}), "repeat of axis 0 is negative");
}

TEST(Tile, RepeatsMayBeSymbolic) {
  Graph graph;
  const Dim b = Dim::symbol("b");
  Value* x = graph.add_input("x", {DType::I32, {2}});
  graph.add_input("batch", {DType::F32, {b}});
  const auto node = build_node(graph, "tile", {x}, {{"repeats", Shape{b}}});
  ASSERT_TRUE(node.has_value());
  EXPECT_EQ((*node)->result()->shape(), (Shape{2 * b}));
  graph.add_output("y", (*node)->result());
  const Tensor data = ints({2}, {7, 8}, DType::I32);
  expect_result(evaluate(graph, std::vector{data, zeros(DType::F32, {3})}), DType::I32, {6},
                {7, 8, 7, 8, 7, 8});
}

}  // namespace
}  // namespace opweld
