#include <limits>

#include "ops/run_op.h"

namespace opweld {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Attributes choosing(const Dim& k, std::int64_t axis, std::int64_t largest) {
  return {{"k", Shape{k}}, {"axis", axis}, {"largest", largest}};
}

void expect_top_k(const Tensor& x, const Attributes& attributes, const Sizes& sizes,
                  const std::vector<double>& values, const std::vector<double>& indices) {
  const auto results = run_op("top_k", {x}, attributes);
  ASSERT_TRUE(results.has_value()) << results.error().message;
  ASSERT_EQ(results->size(), 2U);
  expect_tensor((*results)[0], x.dtype(), sizes, values);
  expect_tensor((*results)[1], DType::I64, sizes, indices);
}

TEST(TopK, OfEqualsTheLowerIndexComesFirst) {
  for (const DType dtype : {DType::F64, DType::F32, DType::F16, DType::BF16, DType::I64, DType::I32,
                            DType::I16, DType::I8}) {
    SCOPED_TRACE(std::string(to_string(dtype)));
    const Tensor x = make_tensor(dtype, {3, 4}, {3, 1, 2, 3, -5, 0, 7, 7, 4, 4, 4, 4});
    expect_top_k(x, choosing(3, 1, 1), {3, 3}, {3, 3, 2, 7, 7, 0, 4, 4, 4},
                 {0, 3, 2, 2, 3, 1, 0, 1, 2});
    expect_top_k(x, choosing(3, 1, 0), {3, 3}, {1, 2, 3, -5, 0, 7, 4, 4, 4},
                 {1, 2, 0, 0, 1, 2, 0, 1, 2});
    expect_top_k(x, choosing(2, 0, 1), {2, 4}, {4, 4, 7, 7, 3, 1, 4, 4}, {2, 2, 1, 1, 0, 0, 2, 2});
    expect_top_k(x, choosing(4, 1, 1), {3, 4}, {3, 3, 2, 1, 7, 7, 0, -5, 4, 4, 4, 4},
                 {0, 3, 2, 1, 2, 3, 1, 0, 0, 1, 2, 3});
  }
}

TEST(TopK, AMiddleAxis) {
  expect_top_k(floats({2, 3, 2}, {5, 1, 2, 9, 8, 3, 0, 7, 7, 7, -1, 2}), choosing(2, 1, 1),
               {2, 2, 2}, {8, 9, 5, 3, 7, 7, 0, 7}, {2, 1, 0, 2, 1, 0, 0, 1});
}

TEST(TopK, NothingChosenAndNothingToChooseFrom) {
  expect_top_k(floats({2, 2}, {0, 1, 2, 3}), choosing(0, 1, 1), {2, 0}, {}, {});
  expect_top_k(floats({0, 2}, {}), choosing(1, 1, 1), {0, 1}, {}, {});
  expect_top_k(floats({2, 0}, {}), choosing(0, 1, 1), {2, 0}, {}, {});
}

TEST(TopK, NanIsTheGreatest) {
  const Tensor x = floats({4}, {kInfinity, kNan, -kInfinity, 1});
  expect_top_k(x, choosing(2, 0, 1), {2}, {kNan, kInfinity}, {1, 0});
  expect_top_k(x, choosing(4, 0, 0), {4}, {-kInfinity, 1, kInfinity, kNan}, {2, 3, 0, 1});
}

TEST(TopK, LargestIsTheDefault) {
  expect_top_k(floats({3}, {1, 3, 2}), {{"k", Shape{1}}, {"axis", std::int64_t{0}}}, {1}, {3}, {1});
}

TEST(TopK, Int64BeyondDoubleIsExact) {
  Tensor x = zeros(DType::I64, {2});
  x.set_int(0, (std::int64_t{1} << 53));
  x.set_int(1, (std::int64_t{1} << 53) + 1);
  const auto results = run_op("top_k", {x}, choosing(1, 0, 1));
  ASSERT_TRUE(results.has_value());
  EXPECT_EQ((*results)[1].get_int(0), 1);
}

TEST(TopK, Errors) {
  const Tensor x = floats({3}, {1, 3, 2});
  expect_error(run_op("top_k", {x}, choosing(4, 0, 1)), "k must not exceed the size of axis 0");
  expect_error(run_op("top_k", {x}, choosing(-1, 0, 1)), "negative");
  expect_error(run_op("top_k", {x}, choosing(1, 1, 1)), "axis 1 is out of range");
  expect_error(run_op("top_k", {x}, {{"k", Shape{1, 1}}, {"axis", std::int64_t{0}}}),
               "'k' must hold one size, it holds 2");
  expect_error(run_op("top_k", {make_tensor(DType::Bool, {1}, {1})}, choosing(1, 0, 1)), "bool");
}

}  // namespace
}  // namespace opweld
