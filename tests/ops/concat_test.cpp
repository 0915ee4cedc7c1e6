#include "ops/run_op.h"

namespace opweld {
namespace {

TEST(Concat, JoinsAlongAnyAxis) {
  expect_move({"concat",
               {{2, 2}, {1, 2}},
               {},
               {{"axis", std::int64_t{0}}},
               {3, 2},
               {0, 1, 2, 3, 100, 101}});
  expect_move({"concat",
               {{2, 2}, {2, 3}, {2, 0}, {2, 1}},
               {},
               {{"axis", std::int64_t{1}}},
               {2, 6},
               {0, 1, 100, 101, 102, 300, 2, 3, 103, 104, 105, 301}});
  expect_move({"concat",
               {{2, 1, 2}, {2, 2, 2}},
               {},
               {{"axis", std::int64_t{1}}},
               {2, 3, 2},
               {0, 1, 100, 101, 102, 103, 2, 3, 104, 105, 106, 107}});
}

TEST(Concat, OneOperandAndEmptyOnes) {
  expect_move({"concat", {{3}}, {}, {{"axis", std::int64_t{0}}}, {3}, {0, 1, 2}});
  expect_move({"concat", {{0}, {2}}, {}, {{"axis", std::int64_t{0}}}, {2}, {100, 101}});
  expect_move({"concat", {{0, 2}, {0, 1}}, {}, {{"axis", std::int64_t{1}}}, {0, 3}, {}});
}

TEST(Concat, TheSameTensorTwice) {
  Graph graph;
  Value* x = graph.add_input("x", {DType::I32, {2}});
  const auto node = build_node(graph, "concat", {x, x}, {{"axis", std::int64_t{0}}});
  ASSERT_TRUE(node.has_value());
  graph.add_output("y", (*node)->result());
  expect_result(evaluate(graph, std::vector{ints({2}, {5, 6}, DType::I32)}), DType::I32, {4},
                {5, 6, 5, 6});
}

TEST(Concat, RefusesOperandsThatDisagree) {
  const Tensor x = floats({2, 2}, {0, 1, 2, 3});
  const Attributes axis0 = {{"axis", std::int64_t{0}}};
  expect_error(run_op("concat", {}, axis0), "concat");
  expect_error(run_op("concat", {x, floats({2}, {0, 1})}, axis0), "operand 1 has rank 1");
  expect_error(run_op("concat", {x, floats({1, 3}, {0, 1, 2})}, axis0),
               "axis 1 of operands 0 and 1");
  expect_error(run_op("concat", {x, ints({1, 2}, {0, 1})}, axis0), "concat");
  expect_error(run_op("concat", {x, x}, {{"axis", std::int64_t{2}}}), "axis 2 is out of range");
  expect_error(run_op("concat", {floats({}, {1})}, axis0), "a scalar has no axes");
}

TEST(Concat, SymbolicSizesAdd) {
  Graph graph;
  const Dim s = Dim::symbol("s");
  const Dim t = Dim::symbol("t");
  Value* past = graph.add_input("past", {DType::F32, {t, 4}});
  Value* next = graph.add_input("next", {DType::F32, {s, 4}});
  const auto node = build_node(graph, "concat", {past, next}, {{"axis", std::int64_t{0}}});
  ASSERT_TRUE(node.has_value());
  EXPECT_EQ((*node)->result()->shape(), (Shape{s + t, 4}));
  EXPECT_THAT(graph.assumptions(), testing::IsEmpty());
  // The other axis must agree: it is assumed, and the constant size is kept.
  Value* wide = graph.add_input("wide", {DType::F32, {s, t}});
  const auto assumed = build_node(graph, "concat", {wide, past}, {{"axis", std::int64_t{0}}});
  ASSERT_TRUE(assumed.has_value());
  EXPECT_EQ((*assumed)->result()->shape(), (Shape{s + t, 4}));
  EXPECT_EQ(graph.assumptions().size(), 1U);
}

}  // namespace
}  // namespace opweld
