// When two results count as the same.
#include "runtime/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace opweld {
namespace {

using ::testing::HasSubstr;

Tensor tensor(DType dtype, const std::vector<double>& values) {
  Tensor result = Tensor::allocate(dtype, {static_cast<std::int64_t>(values.size())}).value();
  for (std::size_t i = 0; i < values.size(); ++i) {
    result.set_double(static_cast<std::int64_t>(i), values[i]);
  }
  return result;
}

constexpr Tolerance kTight = {0x1p-10, 0x1p-16};

bool equal(double actual, double expected) {
  return compare_strictly(tensor(DType::F64, {actual}), tensor(DType::F64, {expected}), kTight)
      .equal;
}

TEST(Compare, WithinRelativeAndAbsoluteError) {
  EXPECT_TRUE(equal(1000 + 1000 * 0x1p-10, 1000));
  EXPECT_FALSE(equal(1000 + 1000 * 0x1.1p-10, 1000));
  EXPECT_TRUE(equal(-0x1p-16, 0));
  EXPECT_FALSE(equal(0x1.1p-16, 0));
  EXPECT_TRUE(equal(-0.0, 0.0));
  // Relative to what is expected, not to what came out.
  EXPECT_FALSE(equal(2000, 1000));
  EXPECT_FALSE(equal(1000, -1000));
}

TEST(Compare, NanAndInfinitiesInTheSamePlaces) {
  EXPECT_TRUE(equal(NAN, NAN));
  EXPECT_FALSE(equal(NAN, 1));
  EXPECT_FALSE(equal(1, NAN));
  EXPECT_TRUE(equal(INFINITY, INFINITY));
  EXPECT_TRUE(equal(-INFINITY, -INFINITY));
  EXPECT_FALSE(equal(INFINITY, -INFINITY));
  EXPECT_FALSE(equal(INFINITY, 1e300));
  EXPECT_FALSE(equal(1e300, INFINITY));
  EXPECT_FALSE(equal(NAN, INFINITY));
  EXPECT_FALSE(equal(INFINITY, NAN));
}

TEST(Compare, OneMisplacedNanAmongThousandsIsADifference) {
  std::vector<double> expected(10000, 1);
  std::vector<double> actual = expected;
  actual[77] = NAN;
  const Comparison result =
      compare(tensor(DType::F32, actual), tensor(DType::F32, expected), kTight);
  EXPECT_FALSE(result.equal);
  EXPECT_EQ(result.outside, 1);
  EXPECT_THAT(result.message, HasSubstr("1 of 10000 elements differ"));
  EXPECT_THAT(result.message, HasSubstr("number 77: nan instead of 1"));
}

TEST(Compare, OneInAHundredMayBeSomewhatOutside) {
  const auto with = [](int outside, double by) {
    std::vector<double> actual(1000, 1);
    for (int i = 0; i < outside; ++i) actual[static_cast<std::size_t>(i) * 7] = 1 + by;
    return compare(tensor(DType::F64, actual), tensor(DType::F64, std::vector<double>(1000, 1)),
                   {0x1p-10, 0});
  };
  EXPECT_TRUE(with(10, 7 * 0x1p-10).equal);
  EXPECT_FALSE(with(11, 7 * 0x1p-10).equal);
  EXPECT_FALSE(with(1, 9 * 0x1p-10).equal) << "beyond eight tolerances none may be";
  EXPECT_EQ(with(11, 7 * 0x1p-10).outside, 11);
  EXPECT_EQ(with(3, 0.5).largest_difference, 0.5);
}

TEST(Compare, StrictlyNoneMayBeOutside) {
  std::vector<double> actual(1000, 1);
  actual[3] = 1 + 2 * 0x1p-10;
  EXPECT_FALSE(compare_strictly(tensor(DType::F64, actual),
                                tensor(DType::F64, std::vector<double>(1000, 1)), {0x1p-10, 0})
                   .equal);
}

TEST(Compare, IntegersAreExactBeyondWhatDoublesHold) {
  Tensor a = Tensor::allocate(DType::I64, {1}).value();
  Tensor b = Tensor::allocate(DType::I64, {1}).value();
  a.set_int(0, (std::int64_t{1} << 60) + 1);
  b.set_int(0, std::int64_t{1} << 60);
  EXPECT_FALSE(compare(a, b, {}).equal);
  EXPECT_TRUE(compare(a, a, {}).equal);
}

TEST(Compare, ShapesMustAgree) {
  const Comparison result =
      compare(tensor(DType::F32, {1, 2}), tensor(DType::F32, {1, 2, 3}), {1, 1});
  EXPECT_FALSE(result.equal);
  EXPECT_THAT(result.message, HasSubstr("[2] instead of [3]"));
}

TEST(Compare, NothingEqualsNothing) {
  EXPECT_TRUE(compare(tensor(DType::F32, {}), tensor(DType::F32, {}), {}).equal);
}

TEST(Compare, DtypesHaveTheirTolerances) {
  EXPECT_EQ(default_tolerance(DType::F32).relative, 0x1p-10);
  EXPECT_EQ(default_tolerance(DType::F32).absolute, 0x1p-16);
  EXPECT_EQ(default_tolerance(DType::F16).relative, 0x1p-9);
  EXPECT_EQ(default_tolerance(DType::BF16).relative, 0x1p-6);
  EXPECT_EQ(default_tolerance(DType::I32).relative, 0);
  EXPECT_EQ(default_tolerance(DType::Bool).absolute, 0);
  // A half against an f64 reference of it.
  EXPECT_TRUE(compare_strictly(tensor(DType::F16, {1.0 / 3}), tensor(DType::F64, {1.0 / 3}),
                               default_tolerance(DType::F16))
                  .equal);
}

}  // namespace
}  // namespace opweld
