// Expected values: numpy in f64, exp(x - max) / sum and x - log(sum(exp(x))).
#include <algorithm>
#include <cmath>

#include "ops/tables.h"

namespace opweld {
namespace {

struct SoftmaxCase {
  const char* op;
  std::int64_t axis;
  std::vector<double> result;
};

TEST(Softmax, Values) {
  const SoftmaxCase cases[] = {
      {"softmax",
       1,
       {0.11055375036173921, 0.005504147127583673, 0.8168878633700657, 0.06705423914061147,
        0.022661413551232853, 0.9635878238493061, 0.013744842111250074, 5.920488210811554e-06}},
      {"softmax",
       0,
       {0.679178699175393, 0.0024726231566347748, 0.9626731126558706, 0.9997965730219448,
        0.32082130082460697, 0.9975273768433653, 0.037326887344129464, 0.0002034269780552065}},
      {"log_softmax",
       1,
       {-2.202253447679352, -5.202253447679352, -0.20225344767935205, -2.702253447679352,
        -3.7870916444261695, -0.03709164442616952, -4.2870916444261695, -12.03709164442617}},
      {"log_softmax",
       0,
       {-0.3868710061148999, -6.00247568513773, -0.03804137168778299, -0.00020344767212943093,
        -1.1368710061148999, -0.0024756851377301103, -3.288041371687783, -8.50020344767213}},
  };
  for (const SoftmaxCase& test : cases) {
    for (const DType dtype : kFloatDTypes) {
      SCOPED_TRACE(test.op + std::string(" ") + std::string(to_string(dtype)));
      const Tensor x = make_tensor(dtype, {2, 4}, {1, -2, 3, 0.5, 0.25, 4, -0.25, -8});
      for (const std::int64_t axis : {test.axis, test.axis - 2}) {
        const auto y = run_op(test.op, {x}, {{"axis", axis}});
        ASSERT_TRUE(y.has_value()) << y.error().message;
        expect_close((*y)[0], dtype, {2, 4}, rounded(test.result, dtype), 8);
      }
    }
  }
}

TEST(Softmax, MiddleAxis) {
  const Tensor x = floats({1, 2, 2}, {0, 5, 0, 5});
  expect_result(run_op("softmax", {x}, {{"axis", std::int64_t{1}}}), DType::F32, {1, 2, 2},
                {0.5, 0.5, 0.5, 0.5});
}

TEST(Softmax, LinesThatHoldNoNumber) {
  const std::vector<double> all_nan(5, kNaN);
  const std::vector<std::vector<double>> lines = {{2.5, 7, kInf, -1, 0.5},
                                                  std::vector<double>(5, -kInf),
                                                  std::vector<double>(5, kInf),
                                                  {1, 2, kNaN, 3, 4}};
  for (const DType dtype : kFloatDTypes) {
    for (const auto& line : lines) {
      expect_result(run_op("softmax", {make_tensor(dtype, {5}, line)}, {}), dtype, {5}, all_nan);
      expect_result(run_op("log_softmax", {make_tensor(dtype, {5}, line)}, {}), dtype, {5},
                    all_nan);
    }
    const Tensor some = make_tensor(dtype, {3}, {-kInf, 2, 2});
    expect_result(run_op("softmax", {some}, {}), dtype, {3}, {0, 0.5, 0.5});
    expect_close((*run_op("log_softmax", {some}, {}))[0], dtype, {3},
                 rounded({-kInf, -std::log(2.0), -std::log(2.0)}, dtype));
  }
}

// Scaled by a constant that is no power of two, beyond 2^31: nearly one-hot, and no NaN.
TEST(Softmax, OfLargeProducts) {
  for (const std::int64_t n : {1, 3, 7, 8, 15, 16, 17, 31, 33, 640}) {
    Graph graph;
    Builder builder(graph);
    Value* x = graph.add_input("x", {DType::F32, {n}});
    Value* scaled = builder.binary("mul", x, builder.scalar(1.1e6, DType::F32));
    graph.add_output("y", builder.op("softmax", {scaled}));
    std::vector<double> values;
    for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>(10000 + i * 23 % n));
    std::vector<double> expected(static_cast<std::size_t>(n), 0.0);
    const auto largest = std::max_element(values.begin(), values.end());
    expected[static_cast<std::size_t>(largest - values.begin())] = 1;
    expect_result(evaluate(graph, std::vector<Tensor>{floats({n}, values)}), DType::F32, {n},
                  expected);
  }
}

TEST(Softmax, OddShapes) {
  expect_result(run_op("softmax", {floats({1}, {-1000})}, {}), DType::F32, {1}, {1});
  expect_result(run_op("softmax", {floats({3, 0}, {})}, {}), DType::F32, {3, 0}, {});
  expect_result(run_op("softmax", {floats({0, 3}, {})}, {}), DType::F32, {0, 3}, {});
  expect_error(run_op("softmax", {floats({}, {1})}, {}), "a scalar has no axes");
  expect_error(run_op("softmax", {floats({2}, {1, 2})}, {{"axis", std::int64_t{1}}}),
               "axis 1 is out of range");
  expect_error(run_op("softmax", {ints({2}, {1, 2})}, {}), "operand 'x' cannot be i64");
}

}  // namespace
}  // namespace opweld
