#include "ops/tables.h"

namespace opweld {
namespace {

TEST(Select, OfEveryDType) {
  const Tensor condition = make_tensor(DType::Bool, {4}, {1, 0, 0, 1});
  for (const DType dtype : kAllDTypes) {
    const Tensor a = make_tensor(dtype, {4}, {1, 1, 1, 0});
    const Tensor b = make_tensor(dtype, {4}, {0, 0, 1, 1});
    expect_result(run_op("select", {condition, a, b}, {}), dtype, {4}, {1, 0, 1, 0});
  }
}

TEST(Select, WhatIsNotChosenHasNoEffect) {
  const Tensor condition = make_tensor(DType::Bool, {4}, {1, 0, 1, 0});
  const Tensor a = floats({4}, {1, kNaN, -kInf, kInf});
  const Tensor b = floats({4}, {kNaN, 2, kInf, -0.0});
  expect_result(run_op("select", {condition, a, b}, {}), DType::F32, {4}, {1, 2, -kInf, 0});
}

TEST(Select, Broadcasts) {
  const Tensor condition = make_tensor(DType::Bool, {2, 1}, {1, 0});
  const Tensor a = ints({3}, {1, 2, 3});
  expect_result(run_op("select", {condition, a, ints({}, {-1})}, {}), DType::I64, {2, 3},
                {1, 2, 3, -1, -1, -1});
  const Tensor scalar = make_tensor(DType::Bool, {}, {0});
  expect_result(run_op("select", {scalar, a, ints({2, 1}, {7, 8})}, {}), DType::I64, {2, 3},
                {7, 7, 7, 8, 8, 8});
  expect_result(run_op("select", {scalar, ints({0}, {}), ints({}, {1})}, {}), DType::I64, {0}, {});
}

TEST(Select, Refuses) {
  const Tensor x = floats({2}, {1, 2});
  const Tensor condition = make_tensor(DType::Bool, {2}, {1, 0});
  expect_error(run_op("select", {x, x, x}, {}), "operand 'condition' cannot be f32");
  expect_error(run_op("select", {condition, x, ints({2}, {1, 2})}, {}), "same dtype");
  expect_error(run_op("select", {condition, x, floats({3}, {1, 2, 3})}, {}), "do not broadcast");
}

// Exporters write Expand's shape as select(shape == -1, ones, shape).
TEST(Select, OfSizes) {
  const Dim s = Dim::symbol("s");
  const Dim t = Dim::symbol("t");
  Graph graph;
  const auto list = [&](std::string name, DType dtype, const Shape& sizes) {
    Value* value =
        graph.add_input(std::move(name), {dtype, {static_cast<std::int64_t>(sizes.size())}});
    value->set_contents(sizes);
    return value;
  };
  Value* shape = list("shape", DType::I64, {s, -1, 4});
  Value* ones = list("ones", DType::I64, {1, 1, 1});
  Builder builder(graph);
  Value* wild = builder.binary("eq", shape, list("wild", DType::I64, {-1, -1, -1}));
  EXPECT_EQ(builder.op("select", {wild, ones, shape})->contents(), (std::vector<Dim>{s, 1, 4}));
  // What the condition leaves open does not matter where both sides are the same.
  Value* open = list("open", DType::Bool, {t, 1, 0});
  Value* other = list("other", DType::I64, {s, 2, 3});
  EXPECT_EQ(builder.op("select", {open, shape, other})->contents(), (std::vector<Dim>{s, -1, 3}));
  EXPECT_FALSE(builder.op("select", {open, ones, other})->contents());
}

TEST(Clip, Floats) {
  for (const DType dtype : kFloatDTypes) {
    const Tensor x = make_tensor(dtype, {7}, {-kInf, -3, -1, 0.5, 2, kInf, kNaN});
    const Tensor low = make_tensor(dtype, {}, {-2});
    const Tensor high = make_tensor(dtype, {}, {1});
    expect_result(run_op("clip", {x, low, high}, {}), dtype, {7}, {-2, -2, -1, 0.5, 1, 1, kNaN});
    expect_result(run_op("clip", {x, low}, {}), dtype, {7}, {-2, -2, -1, 0.5, 2, kInf, kNaN});
    expect_result(run_op("clip", {x, Tensor(), high}, {}), dtype, {7},
                  {-kInf, -3, -1, 0.5, 1, 1, kNaN});
    expect_result(run_op("clip", {x}, {}), dtype, {7}, {-kInf, -3, -1, 0.5, 2, kInf, kNaN});
    // The upper bound wins where they cross.
    expect_result(run_op("clip", {x, high, low}, {}), dtype, {7}, {-2, -2, -2, -2, -2, -2, kNaN});
    const Tensor nan = make_tensor(dtype, {}, {kNaN});
    expect_result(run_op("clip", {x, nan}, {}), dtype, {7}, std::vector<double>(7, kNaN));
    expect_result(run_op("clip", {x, low, nan}, {}), dtype, {7}, std::vector<double>(7, kNaN));
  }
}

TEST(Clip, Integers) {
  for (const DType dtype : kIntegerDTypes) {
    const Tensor x = make_tensor(dtype, {4}, {0, 3, 5, 127});
    const Tensor low = make_tensor(dtype, {}, {2});
    const Tensor high = make_tensor(dtype, {}, {4});
    expect_result(run_op("clip", {x, low, high}, {}), dtype, {4}, {2, 3, 4, 4});
  }
}

TEST(Clip, BoundsBroadcast) {
  const Tensor x = ints({2, 2}, {1, 2, 3, 4});
  expect_result(run_op("clip", {x, ints({2, 1}, {2, 0}), ints({2}, {3, 1})}, {}), DType::I64,
                {2, 2}, {2, 1, 3, 1});
  expect_error(run_op("clip", {x, floats({}, {1})}, {}), "same dtype");
}

}  // namespace
}  // namespace opweld
