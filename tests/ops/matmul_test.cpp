#include <random>

#include "ops/tables.h"

namespace opweld {
namespace {

TEST(Matmul, EveryNumber) {
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::Bool) continue;
    const Tensor a = make_tensor(dtype, {2, 3}, {1, 2, 3, 4, 5, 6});
    const Tensor b = make_tensor(dtype, {3, 2}, {7, 8, 9, 1, 2, 3});
    expect_result(run_op("matmul", {a, b}, {}), dtype, {2, 2}, {31, 19, 85, 55});
  }
}

TEST(Matmul, IntegersWrap) {
  const Tensor a = make_tensor(DType::I8, {1, 2}, {100, -128});
  const Tensor b = make_tensor(DType::I8, {2, 1}, {3, -128});
  expect_result(run_op("matmul", {a, b}, {}), DType::I8, {1, 1}, {44});  // 16684 mod 256
}

// Sums of products of small integers are exact, so they must agree with int64 to the last bit.
TEST(Matmul, EveryWidth) {
  std::mt19937 generator(1);
  const auto random = [&](Sizes sizes) { return small_integers(generator, std::move(sizes)); };
  for (const std::int64_t n : {1, 3, 7, 8, 15, 16, 17, 31, 33, 64, 65, 640}) {
    const Tensor a = random({5, 33});
    const Tensor b = random({33, n});
    std::vector<double> expected;
    for (std::int64_t i = 0; i < 5; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        std::int64_t sum = 0;
        for (std::int64_t k = 0; k < 33; ++k) sum += a.get_int(i * 33 + k) * b.get_int(k * n + j);
        expected.push_back(static_cast<double>(sum));
      }
    }
    expect_result(run_op("matmul", {a, b}, {}), DType::F32, {5, n}, expected);
  }
}

TEST(Matmul, BatchesBroadcast) {
  const Tensor rows = ints({3, 1, 1, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor columns = ints({2, 2, 1}, {1, 10, 100, 1000});
  expect_result(run_op("matmul", {rows, columns}, {}), DType::I64, {3, 2, 1, 1},
                {21, 2100, 43, 4300, 65, 6500});
  const Tensor matrix = ints({2, 2}, {0, 1, 1, 0});
  expect_result(run_op("matmul", {ints({2, 1, 2}, {1, 2, 3, 4}), matrix}, {}), DType::I64,
                {2, 1, 2}, {2, 1, 4, 3});
  expect_result(run_op("matmul", {matrix, ints({2, 2, 1}, {1, 2, 3, 4})}, {}), DType::I64,
                {2, 2, 1}, {2, 1, 4, 3});
}

TEST(Matmul, EmptySizes) {
  expect_result(run_op("matmul", {floats({2, 0}, {}), floats({0, 3}, {})}, {}), DType::F32, {2, 3},
                {0, 0, 0, 0, 0, 0});
  expect_result(run_op("matmul", {floats({0, 2}, {}), floats({2, 3}, {1, 2, 3, 4, 5, 6})}, {}),
                DType::F32, {0, 3}, {});
  expect_result(run_op("matmul", {floats({0, 1, 2}, {}), floats({2, 1}, {1, 2})}, {}), DType::F32,
                {0, 1, 1}, {});
}

TEST(Matmul, NanAndInfinity) {
  const Tensor a = floats({3, 2}, {1, kInf, kNaN, 0, kInf, -kInf});
  const Tensor b = floats({2, 2}, {1, 0, 1, 0});
  expect_result(run_op("matmul", {a, b}, {}), DType::F32, {3, 2},
                {kInf, kNaN, kNaN, kNaN, kNaN, kNaN});
}

// Its partial sums need 17 bits, its result 12: rounding to half on the way would show.
TEST(Matmul, HalvesGatherInMore) {
  const Tensor a = make_tensor(DType::F16, {1, 3}, {2048, 1, -2048});
  const Tensor b = make_tensor(DType::F16, {3, 1}, {32, 1, 32});
  expect_result(run_op("matmul", {a, b}, {}), DType::F16, {1, 1}, {1});
}

// A[3,3] B[3,1] + C[1,4] has shape [3, 4].
TEST(Matmul, ThenAWiderBias) {
  Graph graph;
  Builder builder(graph);
  Value* a = graph.add_input("a", {DType::F32, {3, 3}});
  Value* b = graph.add_input("b", {DType::F32, {3, 1}});
  Value* c = graph.add_input("c", {DType::F32, {1, 4}});
  graph.add_output("y", builder.binary("add", builder.binary("matmul", a, b), c));
  const std::vector<Tensor> inputs = {floats({3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1}),
                                      floats({3, 1}, {10, 20, 30}), floats({1, 4}, {1, 2, 3, 4})};
  expect_result(evaluate(graph, inputs), DType::F32, {3, 4},
                {11, 12, 13, 14, 21, 22, 23, 24, 31, 32, 33, 34});
}

TEST(Matmul, SymbolicSizes) {
  const Dim b = Dim::symbol("b");
  const Dim s = Dim::symbol("s");
  const Dim t = Dim::symbol("t");
  Graph graph;
  Builder builder(graph);
  Value* x = graph.add_input("x", {DType::F32, {b, 1, s, 64}});
  Value* y = graph.add_input("y", {DType::F32, {12, 64, t}});
  EXPECT_EQ(builder.binary("matmul", x, y)->shape(), (Shape{b, 12, s, t}));
  EXPECT_TRUE(graph.assumptions().empty());
  Value* z = graph.add_input("z", {DType::F32, {s, 2}});
  Value* w = graph.add_input("w", {DType::F32, {3, t}});
  EXPECT_EQ(builder.binary("matmul", w, z)->shape(), (Shape{3, 2}));
  ASSERT_EQ(graph.assumptions().size(), 1U);
  EXPECT_EQ(graph.assumptions()[0].left, t);
  EXPECT_EQ(graph.assumptions()[0].right, s);
}

TEST(Matmul, Refuses) {
  const Tensor a = floats({2, 3}, {0, 1, 2, 3, 4, 5});
  expect_error(run_op("matmul", {a, a}, {}), "'a' is f32[2, 3], 'b' is f32[2, 3]");
  expect_error(run_op("matmul", {a, floats({3}, {1, 2, 3})}, {}), "must have rank 2 or more");
  expect_error(run_op("matmul", {zeros(DType::F32, {2, 1, 3}), zeros(DType::F32, {3, 3, 1})}, {}),
               "the batches of 'a' and 'b' do not broadcast");
  expect_error(run_op("matmul", {a, ints({3, 1}, {1, 2, 3})}, {}), "must have the same dtype");
}

}  // namespace
}  // namespace opweld
