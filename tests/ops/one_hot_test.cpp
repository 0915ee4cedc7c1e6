#include <cstring>

#include "ops/run_op.h"

namespace opweld {
namespace {

Attributes encoding(const Dim& depth, std::int64_t axis) {
  return {{"depth", Shape{depth}}, {"axis", axis}};
}

struct Case {
  Tensor indices;
  std::int64_t depth;
  std::int64_t axis;
  Sizes sizes;
  std::vector<double> values;  // for off = 0, on = 1
};

// Expected values written out from numpy; negative indices count from the end, others match
// nowhere.
std::vector<Case> cases() {
  return {
      {ints({4}, {1, -1, 3, 0}), 3, 1, {4, 3}, {0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0}},
      {ints({2, 2}, {0, 2, -3, -4}), 3, 0, {3, 2, 2}, {1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0}},
      {ints({2, 2}, {0, 2, -3, -4}, DType::I32),
       3,
       1,
       {2, 3, 2},
       {1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0}},
      {ints({}, {2}), 4, 0, {4}, {0, 0, 1, 0}},
      {ints({2}, {0, 1}), 0, 1, {2, 0}, {}},
      {ints({0}, {}), 3, 0, {3, 0}, {}},
  };
}

TEST(OneHot, NumpyValues) {
  for (const Case& test : cases()) {
    for (const Meaning meaning : {Meaning::Definition, Meaning::Body}) {
      expect_result(run_op("one_hot", {test.indices, floats({2}, {0, 1})},
                           encoding(test.depth, test.axis), meaning),
                    DType::F32, test.sizes, test.values);
    }
  }
}

TEST(OneHot, ValuesOfEveryDTypeKeepTheirBits) {
  for (const DType dtype : kAllDTypes) {
    const Tensor values = random_bits(dtype, {2}, 3);
    const auto results = run_op("one_hot", {ints({1}, {1}), values}, encoding(3, 1));
    ASSERT_TRUE(results.has_value());
    const auto width = static_cast<std::size_t>(byte_size(dtype));
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(std::memcmp((*results)[0].data() + i * width, values.data() + (i == 1 ? width : 0),
                            width),
                0);
    }
  }
}

TEST(OneHot, Errors) {
  const Tensor one = ints({1}, {0});
  expect_error(run_op("one_hot", {one, floats({3}, {0, 1, 2})}, encoding(2, 0)),
               "the pair of off and on");
  expect_error(run_op("one_hot", {one, floats({}, {0})}, encoding(2, 0)), "rank 1");
  expect_error(run_op("one_hot", {one, floats({2}, {0, 1})}, encoding(2, 2)),
               "axis 2 is out of range");
  expect_error(run_op("one_hot", {one, floats({2}, {0, 1})}, encoding(-2, 0)), "negative");
}

}  // namespace
}  // namespace opweld
