#include "ops/tables.h"

namespace opweld {
namespace {

Attributes along(std::int64_t axis, bool exclusive = false, bool reverse = false) {
  return {
      {"axis", axis}, {"exclusive", std::int64_t{exclusive}}, {"reverse", std::int64_t{reverse}}};
}

TEST(Cumsum, EveryNumber) {
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::Bool) continue;
    const Tensor x = make_tensor(dtype, {4}, {1, 2, 3, 4});
    expect_result(run_op("cumsum", {x}, along(0)), dtype, {4}, {1, 3, 6, 10});
    expect_result(run_op("cumsum", {x}, along(0, true)), dtype, {4}, {0, 1, 3, 6});
    expect_result(run_op("cumsum", {x}, along(0, false, true)), dtype, {4}, {10, 9, 7, 4});
    expect_result(run_op("cumsum", {x}, along(0, true, true)), dtype, {4}, {9, 7, 4, 0});
  }
}

TEST(Cumsum, AnyAxis) {
  const Tensor x = ints({2, 3}, {1, 2, 3, 4, 5, 6});
  expect_result(run_op("cumsum", {x}, along(0)), DType::I64, {2, 3}, {1, 2, 3, 5, 7, 9});
  expect_result(run_op("cumsum", {x}, along(1)), DType::I64, {2, 3}, {1, 3, 6, 4, 9, 15});
  expect_result(run_op("cumsum", {x}, {}), DType::I64, {2, 3}, {1, 3, 6, 4, 9, 15});
  const Tensor cube = ints({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  expect_result(run_op("cumsum", {cube}, along(-2)), DType::I64, {2, 2, 2},
                {1, 2, 4, 6, 5, 6, 12, 14});
}

TEST(Cumsum, AtTheEdges) {
  const Tensor x = floats({4}, {1, kInf, 2, kNaN});
  expect_result(run_op("cumsum", {x}, along(0)), DType::F32, {4}, {1, kInf, kInf, kNaN});
  const Tensor bytes = make_tensor(DType::I8, {3}, {100, 100, 100});
  expect_result(run_op("cumsum", {bytes}, along(0)), DType::I8, {3}, {100, -56, 44});
  expect_result(run_op("cumsum", {floats({2, 0}, {})}, along(1)), DType::F32, {2, 0}, {});
  expect_result(run_op("cumsum", {floats({0, 2}, {})}, along(1)), DType::F32, {0, 2}, {});
  expect_error(run_op("cumsum", {floats({}, {1})}, along(0)), "a scalar has no axes");
  expect_error(run_op("cumsum", {x}, along(1)), "axis 1 is out of range");
}

// 1 and then 2048 halves of 2^-11: added to a rounded sum each of them would be lost.
TEST(Cumsum, HalvesGatherInMore) {
  std::vector<double> values(2049, 0x1p-11);
  values[0] = 1;
  const auto sums = run_op("cumsum", {make_tensor(DType::F16, {2049}, values)}, along(0));
  EXPECT_EQ((*sums)[0].get_double(2048), 2);
}

}  // namespace
}  // namespace opweld
