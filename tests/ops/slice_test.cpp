#include "ops/run_op.h"

namespace opweld {
namespace {

Attributes slicing(const Shape& starts, const Shape& sizes, const Ints& steps) {
  return {{"starts", starts}, {"sizes", sizes}, {"steps", steps}};
}

void expect_slice(const Sizes& x, const Shape& starts, const Sizes& sizes, const Ints& steps,
                  const std::vector<int>& sources) {
  expect_move({"slice",
               {x},
               {},
               slicing(starts, Shape(sizes.begin(), sizes.end()), steps),
               sizes,
               sources});
}

TEST(Slice, StepsForwardsAndBackwards) {
  expect_slice({10}, {1}, {3}, {3}, {1, 4, 7});
  expect_slice({10}, {9}, {5}, {-2}, {9, 7, 5, 3, 1});
  expect_slice({10}, {9}, {10}, {-1}, {9, 8, 7, 6, 5, 4, 3, 2, 1, 0});
  expect_slice({4, 5}, {3, 1}, {3, 2}, {-1, 2}, {16, 18, 11, 13, 6, 8});
  expect_slice({2, 3, 4}, {1, 2, 1}, {1, 2, 2}, {1, -2, 1}, {21, 22, 13, 14});
}

TEST(Slice, ScalarsAndEmptySelections) {
  expect_slice({}, {}, {}, {}, {0});
  expect_slice({10}, {0}, {0}, {-1}, {});
  expect_slice({0, 3}, {0, 1}, {0, 2}, {1, 1}, {});
  expect_slice({3}, {3}, {0}, {1}, {});
}

TEST(Slice, RefusesWhatLiesOutside) {
  const Tensor x = floats({4}, {0, 1, 2, 3});
  expect_error(run_op("slice", {x}, slicing({2}, {3}, {1})), "must end within");
  expect_error(run_op("slice", {x}, slicing({-1}, {1}, {1})), "must begin at 0 or later");
  expect_error(run_op("slice", {x}, slicing({2}, {4}, {-1})), "must begin at 0 or later");
  expect_error(run_op("slice", {x}, slicing({4}, {1}, {-1})), "must end within");
  expect_error(run_op("slice", {x}, slicing({0}, {2}, {0})), "step of axis 0 is zero");
  expect_error(run_op("slice", {x}, slicing({0}, {-1}, {1})), "negative");
  expect_error(run_op("slice", {x}, slicing({0, 0}, {1}, {1})), "x has rank 1");
}

TEST(Slice, StepsAtTheEdgeOfInt64AreRefusedNotWrapped) {
  const Tensor x = floats({4}, {0, 1, 2, 3});
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  expect_error(run_op("slice", {x}, slicing({0}, {3}, {kHuge})), "must end within");
  expect_slice({4}, {2}, {1}, {kHuge}, {2});
  expect_slice({2, 2}, {1, 0}, {1, 2}, {kHuge, 1}, {2, 3});
  expect_slice({2, 2}, {1, 0}, {1, 2}, {std::numeric_limits<std::int64_t>::min(), 1}, {2, 3});
}

TEST(Slice, SymbolicBoundsAreProvenOrChecked) {
  Graph graph;
  const Dim s = Dim::symbol("s", {1, 512});
  const Dim t = Dim::symbol("t", {1, 512});
  Value* x = graph.add_input("x", {DType::F32, {s, 8}});
  graph.add_input("unused", {DType::F32, {t}});
  ASSERT_TRUE(build_node(graph, "slice", {x}, slicing({s - 1, 4}, {1, 4}, {1, 1})));
  ASSERT_TRUE(build_node(graph, "slice", {x}, slicing({s - 1, 0}, {s, 8}, {-1, 1})));
  EXPECT_THAT(graph.assumptions(), testing::IsEmpty());
  const auto node = build_node(graph, "slice", {x}, slicing({0, 0}, {t, 8}, {1, 1}));
  ASSERT_TRUE(node.has_value());
  EXPECT_EQ((*node)->result()->shape(), (Shape{t, 8}));
  ASSERT_EQ(graph.assumptions().size(), 1U);
  graph.add_output("y", (*node)->result());
  const Tensor data = random_bits(DType::F32, {3, 8}, 1);
  EXPECT_TRUE(evaluate(graph, std::vector{data, zeros(DType::F32, {2})}).has_value());
  EXPECT_FALSE(evaluate(graph, std::vector{data, zeros(DType::F32, {4})}).has_value());
}

// The evaluation stands on its own feet: whoever calls it need not have checked the assumptions.
TEST(Slice, EvaluationChecksTheRangeItself) {
  const Tensor x = floats({4}, {0, 1, 2, 3});
  const Tensor* operands[] = {&x};
  const auto run = [&](std::int64_t start, std::int64_t size, std::int64_t step) {
    Tensor results[] = {zeros(DType::F32, {size})};
    const Attributes attributes = slicing({Dim::symbol("s")}, {size}, {step});
    return find_op("slice")->evaluate({operands, attributes, {{"s", start}}, results}).has_value();
  };
  EXPECT_TRUE(run(1, 3, 1));
  EXPECT_FALSE(run(2, 3, 1));
  EXPECT_FALSE(run(4, 1, 1));
  EXPECT_TRUE(run(0, 2, 3));
  EXPECT_FALSE(run(1, 2, 3));
  EXPECT_TRUE(run(3, 4, -1));
  EXPECT_FALSE(run(2, 4, -1));
  EXPECT_TRUE(run(3, 2, -3));
  EXPECT_FALSE(run(3, 2, -4));
  EXPECT_TRUE(run(9, 0, 1));
}

}  // namespace
}  // namespace opweld
