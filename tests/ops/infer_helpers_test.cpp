#include "ops/infer_helpers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/broadcast.h"

namespace opweld {
namespace {

using ::testing::ElementsAre;

const Dim kB = Dim::symbol("b");
const Dim kS = Dim::symbol("s");

template <typename T>
std::string message(const Expected<T>& result) {
  return result ? "no error" : result.error().message;
}

TEST(NormalizeAxis, CountsFromTheEnd) {
  EXPECT_EQ(*normalize_axis(0, 3), 0);
  EXPECT_EQ(*normalize_axis(2, 3), 2);
  EXPECT_EQ(*normalize_axis(-1, 3), 2);
  EXPECT_EQ(*normalize_axis(-3, 3), 0);
  EXPECT_EQ(message(normalize_axis(3, 3)),
            "axis 3 is out of range for rank 3; it must be in [-3, 2]");
  EXPECT_EQ(message(normalize_axis(std::numeric_limits<std::int64_t>::min(), 1)),
            "axis -9223372036854775808 is out of range for rank 1; it must be in [-1, 0]");
  EXPECT_EQ(message(normalize_axis(0, 0)), "axis 0 is out of range: a scalar has no axes");
}

TEST(NormalizeAxes, SortsAndRefusesDuplicates) {
  EXPECT_THAT(*normalize_axes({-1, 0}, 3), ElementsAre(0, 2));
  EXPECT_THAT(*normalize_axes({}, 3), ElementsAre());
  EXPECT_EQ(message(normalize_axes({1, -2}, 3)), "axis 1 is named twice");
  EXPECT_EQ(message(normalize_axes({0, 5}, 3)),
            "axis 5 is out of range for rank 3; it must be in [-3, 2]");
}

TEST(UnifySizes, ProvesRefutesOrAssumes) {
  std::vector<SizeAssumption> assumptions;
  EXPECT_EQ(*unify_sizes(kS + kS, kS * 2, "they", &assumptions), kS * 2);
  EXPECT_TRUE(assumptions.empty());
  EXPECT_EQ(*unify_sizes(kS, 8, "they", &assumptions), Dim(8));
  EXPECT_EQ(*unify_sizes(8, kS, "they", &assumptions), Dim(8));
  EXPECT_EQ(*unify_sizes(kB, kS, "they", &assumptions), kB);
  EXPECT_EQ(assumptions.size(), 3U);
  EXPECT_EQ(*unify_sizes(kB, kS, "they", nullptr), kB);
  EXPECT_EQ(message(unify_sizes(3, 4, "they", &assumptions)),
            "they must have the same size, but have 3 and 4");
  EXPECT_EQ(message(unify_sizes(kS, kS + 1, "they", &assumptions)),
            "they must have the same size, but have s and s + 1");
  EXPECT_EQ(message(unify_sizes(Dim::symbol("t", {1, 4, 1}), 5, "they", &assumptions)),
            "they must have the same size, but have t and 5");
  EXPECT_EQ(message(unify_sizes(Dim::overflow(), 5, "they", &assumptions)), "they are too large");
  EXPECT_EQ(assumptions.size(), 3U);
}

TEST(UnifyShapes, GoesAxisByAxis) {
  std::vector<SizeAssumption> assumptions;
  EXPECT_EQ(*unify_shapes({kB, 4}, {3, 4}, "a and b", &assumptions), (Shape{3, 4}));
  ASSERT_EQ(assumptions.size(), 1U);
  EXPECT_EQ(assumptions[0].reason, "axis 0 of a and b must be equal");
  EXPECT_EQ(message(unify_shapes({1, 4}, {1, 5}, "a and b", nullptr)),
            "axis 1 of a and b must have the same size, but have 4 and 5");
  EXPECT_EQ(message(unify_shapes({1}, {1, 1}, "a and b", nullptr)),
            "a and b must have the same shape, but have [1] and [1, 1]");
}

TEST(BroadcastShapes, FollowsNumpy) {
  const auto shape = [](const Shape& a, const Shape& b) {
    std::vector<SizeAssumption> assumptions;
    auto result = broadcast_shapes(a, b, "they", &assumptions);
    EXPECT_TRUE(assumptions.empty());
    EXPECT_TRUE(result) << message(result);
    return result.value_or(Shape{});
  };
  EXPECT_EQ(shape({}, {}), Shape{});
  EXPECT_EQ(shape({3}, {}), Shape{3});
  EXPECT_EQ(shape({kB, 1, 3}, {kS, 1}), (Shape{kB, kS, 3}));
  EXPECT_EQ(shape({1}, {0}), Shape{0}) << "an empty axis is broadcast to, not from";
  EXPECT_EQ(shape({1, kS}, {kB, kS}), (Shape{kB, kS}));
  EXPECT_EQ(message(broadcast_shapes({2, 3}, {2, 4}, "they", nullptr)),
            "they do not broadcast: [2, 3] and [2, 4] differ on axis -1");
  EXPECT_EQ(message(broadcast_shapes({0}, {2}, "they", nullptr)),
            "they do not broadcast: [0] and [2] differ on axis -1");
}

TEST(BroadcastWalk, VisitsOperandsWhereNumpyReadsThem) {
  const Sizes a{2, 1, 3};
  const Sizes b{4, 1};
  const Sizes* operands[] = {&a, &b, nullptr};
  BroadcastWalk walk({2, 4, 3}, operands);
  std::int64_t position = 0;
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) {
      for (std::int64_t k = 0; k < 3; ++k, ++position) {
        ASSERT_FALSE(walk.done());
        EXPECT_EQ(walk.position(), position);
        EXPECT_THAT(walk.offsets(), ElementsAre(i * 3 + k, j, 0));
        walk.advance();
      }
    }
  }
  EXPECT_TRUE(walk.done());
}

TEST(BroadcastWalk, ScalarsAndEmptyTensors) {
  const Sizes scalar{};
  const Sizes* operands[] = {&scalar};
  BroadcastWalk one({}, operands);
  EXPECT_FALSE(one.done());
  one.advance();
  EXPECT_TRUE(one.done());
  EXPECT_TRUE(BroadcastWalk({3, 0, 2}, operands).done());
}

}  // namespace
}  // namespace opweld
