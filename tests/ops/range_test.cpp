#include "ops/run_op.h"

namespace opweld {
namespace {

Attributes of_length(const Dim& length) {
  return {{"length", Shape{length}}};
}

void expect_range(DType dtype, double start, double step, std::int64_t length,
                  const std::vector<double>& values) {
  for (const Meaning meaning : {Meaning::Definition, Meaning::Body}) {
    expect_result(run_op("range", {make_tensor(dtype, {}, {start}), make_tensor(dtype, {}, {step})},
                         of_length(length), meaning),
                  dtype, {length}, values);
  }
}

TEST(Range, EveryKindOfNumber) {
  for (const DType dtype : {DType::F64, DType::F32, DType::F16, DType::BF16}) {
    expect_range(dtype, 1.5, 0.25, 5, {1.5, 1.75, 2, 2.25, 2.5});
  }
  for (const DType dtype : {DType::I64, DType::I32, DType::I16, DType::I8, DType::F32}) {
    expect_range(dtype, 10, -3, 4, {10, 7, 4, 1});
  }
  expect_range(DType::U8, 250, 2, 3, {250, 252, 254});
  expect_range(DType::F32, 3, 1, 0, {});
}

TEST(Range, StoresInTheDType) {
  // numpy.float16(numpy.arange(2045, 2053)): ties to even beyond 2048.
  expect_range(DType::F16, 2045, 1, 8, {2045, 2046, 2047, 2048, 2048, 2050, 2052, 2052});
  expect_range(DType::I8, 120, 5, 4, {120, 125, -126, -121});
}

TEST(Range, Errors) {
  const Tensor one = floats({}, {1});
  expect_error(run_op("range", {floats({1}, {0}), one}, of_length(3)), "must be scalars");
  expect_error(run_op("range", {one, ints({}, {1})}, of_length(3)), "range");
  expect_error(run_op("range", {one, one}, of_length(-1)), "negative");
  expect_error(run_op("range", {one, one}, {{"length", Shape{1, 2}}}), "must hold one size");
}

TEST(Range, LengthMayBeSymbolic) {
  Graph graph;
  const Dim s = Dim::symbol("s");
  graph.add_input("x", {DType::F32, {s}});
  Builder builder(graph);
  Value* y = builder.op("range", {builder.scalar(0, DType::I64), builder.scalar(1, DType::I64)},
                        of_length(s));
  ASSERT_TRUE(builder.status().has_value());
  EXPECT_EQ(y->shape(), (Shape{s}));
  graph.add_output("y", y);
  expect_result(evaluate(graph, std::vector{zeros(DType::F32, {3})}), DType::I64, {3}, {0, 1, 2});
}

}  // namespace
}  // namespace opweld
