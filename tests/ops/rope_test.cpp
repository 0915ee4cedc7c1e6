// The formula asks nothing of cos and sin, so short numbers stand for them and all sums are exact.
#include "ops/tables.h"

namespace opweld {
namespace {

Attributes interleaved(bool value) {
  return {{"interleaved", std::int64_t{value}}};
}

TEST(Rope, TurnsHalves) {
  for (const DType dtype : kFloatDTypes) {
    // Two positions of one head of four: (1, 2, 3, 4), (5, 6, 7, 8).
    const Tensor x = make_tensor(dtype, {1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
    const Tensor cos = make_tensor(dtype, {2, 2}, {1, 0.5, 2, -1});
    const Tensor sin = make_tensor(dtype, {2, 2}, {0.25, 1, -0.5, 3});
    // first * cos - second * sin, then first * sin + second * cos
    expect_result(run_op("rope", {x, cos, sin}, {}), dtype, {1, 1, 2, 4},
                  {0.25, -3, 3.25, 4, 13.5, -30, 11.5, 10});
    expect_result(run_op("rope", {x, cos, sin}, interleaved(true)), dtype, {1, 1, 2, 4},
                  {0.5, 2.25, -2.5, 5, 13, 9.5, -31, 13});
  }
}

// Pairs cover four of six elements.
TEST(Rope, LeavesTheRestOfTheHead) {
  const Tensor x = floats({1, 1, 1, 6}, {1, 2, 3, 4, 5, kNaN});
  const Tensor cos = floats({1, 2}, {1, 0.5});
  const Tensor sin = floats({1, 2}, {0.25, 1});
  expect_result(run_op("rope", {x, cos, sin}, interleaved(false)), DType::F32, {1, 1, 1, 6},
                {0.25, -3, 3.25, 4, 5, kNaN});
  expect_result(run_op("rope", {x, cos, sin}, interleaved(true)), DType::F32, {1, 1, 1, 6},
                {0.5, 2.25, -2.5, 5, 5, kNaN});
}

TEST(Rope, AnglesOfEachBatchOrOfAll) {
  // Two batches, two heads, one position; the same head everywhere.
  const Tensor x = floats({2, 2, 1, 2}, {1, 2, 3, 4, 1, 2, 3, 4});
  const Tensor shared_cos = floats({1, 1, 1}, {2});
  const Tensor shared_sin = floats({1, 1, 1}, {1});
  expect_result(run_op("rope", {x, shared_cos, shared_sin}, {}), DType::F32, {2, 2, 1, 2},
                {0, 5, 2, 11, 0, 5, 2, 11});
  const Tensor cos = floats({2, 1, 1}, {2, 0});
  const Tensor sin = floats({2, 1, 1}, {1, 1});
  expect_result(run_op("rope", {x, cos, sin}, {}), DType::F32, {2, 2, 1, 2},
                {0, 5, 2, 11, -2, 1, -4, 3});
  expect_result(run_op("rope", {x, cos, shared_sin}, {}), DType::F32, {2, 2, 1, 2},
                {0, 5, 2, 11, -2, 1, -4, 3});
}

TEST(Rope, HalvesTurnedByF32) {
  const Tensor x = make_tensor(DType::F16, {1, 1, 1, 2}, {1024, 1});
  const Tensor cos = floats({1, 1}, {1 + 0x1p-12});
  const Tensor sin = floats({1, 1}, {0});
  // 1024.25 and 1.000244 rounded once.
  expect_result(run_op("rope", {x, cos, sin}, {}), DType::F16, {1, 1, 1, 2}, {1024, 1});
}

TEST(Rope, EmptySizes) {
  expect_result(
      run_op("rope", {floats({0, 2, 1, 2}, {}), floats({1, 1}, {1}), floats({1, 1}, {0})}, {}),
      DType::F32, {0, 2, 1, 2}, {});
  expect_result(
      run_op("rope", {floats({1, 2, 0, 2}, {}), floats({0, 1}, {}), floats({0, 1}, {})}, {}),
      DType::F32, {1, 2, 0, 2}, {});
  expect_result(
      run_op("rope", {floats({1, 1, 1, 2}, {5, 6}), floats({1, 0}, {}), floats({1, 0}, {})}, {}),
      DType::F32, {1, 1, 1, 2}, {5, 6});
}

TEST(Rope, Refuses) {
  const auto rope = [](Sizes x, Sizes cos, Sizes sin) {
    return run_op("rope",
                  {zeros(DType::F32, std::move(x)), zeros(DType::F32, std::move(cos)),
                   zeros(DType::F32, std::move(sin))},
                  {});
  };
  expect_error(rope({1, 2, 3}, {3, 1}, {3, 1}), "must have rank 4");
  expect_error(rope({1, 1, 3, 4}, {2}, {3, 2}), "operand 'cos' must be [positions, pairs]");
  expect_error(rope({1, 1, 3, 4}, {2, 2}, {3, 2}), "the positions of 'x' and 'cos'");
  expect_error(rope({3, 1, 3, 4}, {3, 2}, {2, 3, 2}), "the batch of 'x' and 'sin'");
  expect_error(rope({1, 1, 3, 4}, {3, 2}, {3, 1}), "the pairs of 'cos' and 'sin'");
  expect_error(rope({1, 1, 3, 4}, {3, 3}, {3, 3}), "3 pairs of elements are more than the head");
}

TEST(Rope, SymbolicSizes) {
  const Dim b = Dim::symbol("b");
  const Dim s = Dim::symbol("s");
  Graph graph;
  Value* x = graph.add_input("x", {DType::F16, {b, 8, s, 64}});
  Value* cos = graph.add_input("cos", {DType::F32, {b, s, 32}});
  Value* sin = graph.add_input("sin", {DType::F32, {1, s, 32}});
  EXPECT_EQ((*build_node(graph, "rope", {x, cos, sin}))->result()->type(), x->type());
  EXPECT_TRUE(graph.assumptions().empty());
}

}  // namespace
}  // namespace opweld
