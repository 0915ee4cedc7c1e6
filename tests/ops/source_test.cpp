#include "ops/run_op.h"

namespace opweld {
namespace {

Attributes counting(const Shape& shape, std::int64_t axis, DType dtype) {
  return {{"shape", shape}, {"axis", axis}, {"dtype", dtype}};
}

TEST(Constant, KeepsTheBitsOfEveryDType) {
  for (const DType dtype : kAllDTypes) {
    const Tensor value = random_bits(dtype, {2, 3}, 5);
    const auto results = run_op("constant", {}, {{"value", value}});
    ASSERT_TRUE(results.has_value());
    EXPECT_TRUE(identical((*results)[0], value)) << to_string(dtype);
  }
}

TEST(Constant, ScalarsAndEmptyTensors) {
  expect_result(run_op("constant", {}, {{"value", floats({}, {2.5})}}), DType::F32, {}, {2.5});
  expect_result(run_op("constant", {}, {{"value", floats({0, 3}, {})}}), DType::F32, {0, 3}, {});
}

TEST(Iota, CountsAlongItsAxis) {
  expect_result(run_op("iota", {}, counting({2, 3}, 1, DType::I64)), DType::I64, {2, 3},
                {0, 1, 2, 0, 1, 2});
  expect_result(run_op("iota", {}, counting({2, 3}, 0, DType::F32)), DType::F32, {2, 3},
                {0, 0, 0, 1, 1, 1});
  expect_result(run_op("iota", {}, counting({2, 2, 2}, 1, DType::F16)), DType::F16, {2, 2, 2},
                {0, 0, 1, 1, 0, 0, 1, 1});
  expect_result(run_op("iota", {}, counting({0}, 0, DType::I64)), DType::I64, {0}, {});
}

TEST(Iota, WrapsAsItsDTypeDoes) {
  const auto results = run_op("iota", {}, counting({258}, 0, DType::U8));
  ASSERT_TRUE(results.has_value());
  EXPECT_EQ((*results)[0].get_int(255), 255);
  EXPECT_EQ((*results)[0].get_int(257), 1);
}

TEST(Iota, Errors) {
  expect_error(run_op("iota", {}, counting({2}, 1, DType::I64)), "axis 1 is out of range");
  expect_error(run_op("iota", {}, counting({}, 0, DType::I64)), "a scalar has no axes");
  expect_error(run_op("iota", {}, counting({2}, 0, DType::Bool)), "bool");
  expect_error(run_op("iota", {}, counting({-2}, 0, DType::I64)), "negative");
}

TEST(Sizes, AreTheValuesOfTheSymbols) {
  Graph graph;
  const Dim b = Dim::symbol("b");
  const Dim s = Dim::symbol("s");
  graph.add_input("x", {DType::F32, {b, s}});
  const auto node = build_node(graph, "sizes", {}, {{"values", Shape{b, s, b * s, 384}}});
  ASSERT_TRUE(node.has_value());
  graph.add_output("y", (*node)->result());
  expect_result(evaluate(graph, std::vector{zeros(DType::F32, {2, 5})}), DType::I64, {4},
                {2, 5, 10, 384});
}

TEST(Sizes, NoneAndTooLarge) {
  expect_result(run_op("sizes", {}, {{"values", Shape{}}}), DType::I64, {0}, {});
  expect_error(run_op("sizes", {}, {{"values", Shape{Dim::overflow()}}}), "overflows 64 bits");
}

}  // namespace
}  // namespace opweld
