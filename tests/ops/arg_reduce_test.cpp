#include "ops/tables.h"

namespace opweld {
namespace {

Attributes along(std::int64_t axis, bool keepdims = false, bool last = false) {
  return {
      {"axis", axis}, {"keepdims", std::int64_t{keepdims}}, {"select_last", std::int64_t{last}}};
}

TEST(ArgReduce, EveryNumber) {
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::Bool) continue;
    const Tensor x = make_tensor(dtype, {2, 4}, {3, 9, 9, 1, 7, 2, 8, 2});
    expect_result(run_op("argmax", {x}, along(1)), DType::I64, {2}, {1, 2});
    expect_result(run_op("argmax", {x}, along(1, false, true)), DType::I64, {2}, {2, 2});
    expect_result(run_op("argmin", {x}, along(-1)), DType::I64, {2}, {3, 1});
    expect_result(run_op("argmin", {x}, along(-1, true, true)), DType::I64, {2, 1}, {3, 3});
    expect_result(run_op("argmax", {x}, along(0)), DType::I64, {4}, {1, 0, 0, 1});
    expect_result(run_op("argmin", {x}, {}), DType::I64, {1, 4}, {0, 1, 1, 0});
  }
}

TEST(ArgReduce, InnerAxes) {
  const Tensor x = ints({2, 3, 2}, {1, 12, 5, 4, 3, 6, 7, 8, 9, 2, 11, 0});
  expect_result(run_op("argmax", {x}, along(1)), DType::I64, {2, 2}, {1, 0, 2, 0});
  expect_result(run_op("argmin", {x}, along(1)), DType::I64, {2, 2}, {0, 1, 0, 2});
}

// numpy.argmax and numpy.argmin both give the first NaN.
TEST(ArgReduce, NanWins) {
  const Tensor x = floats({2, 4}, {1, kNaN, kInf, kNaN, -kInf, 2, kNaN, 3});
  for (const char* op : {"argmax", "argmin"}) {
    expect_result(run_op(op, {x}, along(1)), DType::I64, {2}, {1, 2});
    expect_result(run_op(op, {x}, along(1, false, true)), DType::I64, {2}, {3, 2});
  }
}

TEST(ArgReduce, ZerosAndInfinities) {
  const Tensor x = floats({4}, {0.0, -0.0, -kInf, kInf});
  expect_result(run_op("argmax", {x}, along(0)), DType::I64, {}, {3});
  expect_result(run_op("argmin", {x}, along(0)), DType::I64, {}, {2});
  const Tensor zeros_only = floats({2}, {-0.0, 0.0});
  expect_result(run_op("argmax", {zeros_only}, along(0)), DType::I64, {}, {0});
  expect_result(run_op("argmin", {zeros_only}, along(0, false, true)), DType::I64, {}, {1});
}

// 2^53 and 2^53 + 1 are one double.
TEST(ArgReduce, LongIntegersAreExact) {
  Tensor x = zeros(DType::I64, {2});
  x.set_int(0, int64_t{1} << 53);
  x.set_int(1, (int64_t{1} << 53) + 1);
  expect_result(run_op("argmax", {x}, along(0)), DType::I64, {}, {1});
}

TEST(ArgReduce, EmptyAxes) {
  expect_result(run_op("argmax", {floats({0, 3}, {})}, along(1)), DType::I64, {0}, {});
  expect_error(run_op("argmax", {floats({3, 0}, {})}, along(1)), "axis 1 has no elements");
  expect_error(run_op("argmax", {floats({}, {1})}, along(0)), "a scalar has no axes");
  expect_error(run_op("argmin", {floats({3}, {1, 2, 3})}, along(1)), "axis 1 is out of range");
}

TEST(ArgReduce, SymbolicAxesAreAssumedNotToBeEmpty) {
  Graph graph;
  Value* x = graph.add_input("x", {DType::F32, {Dim::symbol("s")}});
  graph.add_output("y", build_node(graph, "argmax", {x}, along(0)).value()->result());
  expect_result(evaluate(graph, std::vector<Tensor>{floats({2}, {1, 2})}), DType::I64, {}, {1});
  expect_error(evaluate(graph, std::vector<Tensor>{floats({0}, {})}), "axis 0 is not empty");
}

}  // namespace
}  // namespace opweld
