#include <cmath>
#include <limits>

#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

constexpr const char* kSoftmax = R"(graph g(%x: f32[a, n]) {
  %y = softmax(%x) {axis = 1}
  return %y as "y"
})";

TEST(RowSchedule, SoftmaxOverTheLastAxis) {
  const GroupRunner group(kSoftmax, KernelKind::Row);
  for (const std::int64_t n : kLengths) group.check({{"a", 3}, {"n", n}});
  group.check({{"a", 0}, {"n", 5}});
}

// In each lane and accumulator, and in the tail.
TEST(RowSchedule, SoftmaxOfALineWithNanIsNan) {
  constexpr std::int64_t kColumns = 150;
  const GroupRunner group(kSoftmax, KernelKind::Row);
  std::vector<Tensor> inputs = group.random_inputs({{"a", kColumns + 2}, {"n", kColumns}});
  for (std::int64_t i = 0; i < kColumns; ++i) {
    inputs[0].set_double(i * kColumns + i, std::numeric_limits<double>::quiet_NaN());
    inputs[0].set_double(kColumns * kColumns + i, -std::numeric_limits<double>::infinity());
  }
  inputs[0].set_double((kColumns + 1) * kColumns, std::numeric_limits<double>::infinity());
  group.check(inputs);
}

// Products beyond 2^31, of a constant that is no power of two, feed the maximum and what is shifted
// by it: nearly one-hot if both are the same products. Beyond what a float holds all is NaN.
TEST(RowSchedule, SoftmaxOfLargeProducts) {
  for (const char* target : {"host", "host-avx2", "host-generic"}) {
    const GroupRunner group(R"(graph g(%x: f32[a, n], %c: f32[]) {
      %s = mul(%x, %c)
      %y = softmax(%s) {axis = 1}
      return %y as "y"
    })",
                            KernelKind::Row, target);
    for (const std::int64_t n : kLengths) {
      std::vector<Tensor> inputs = group.random_inputs({{"a", 2}, {"n", n}});
      const std::int64_t largest = n / 2;
      for (std::int64_t i = 0; i < 2 * n; ++i) {
        inputs[0].set_double(i, (i % n == largest ? 10001.0 : 9000.0 - static_cast<double>(i)));
      }
      inputs[1].set_double(0, 1.1e6);
      const auto finite = group.run(inputs);
      inputs[1].set_double(0, 1e36);
      const auto infinite = group.run(inputs);
      ASSERT_TRUE(finite && infinite);
      for (std::int64_t i = 0; i < 2 * n; ++i) {
        const double expected = i % n == largest ? 1 : 0;
        EXPECT_EQ((*finite)[0].get_double(i), expected) << n << " at " << i;
        EXPECT_TRUE(std::isnan((*infinite)[0].get_double(i))) << n << " at " << i;
      }
    }
  }
}

TEST(RowSchedule, GreatestNumbers) {
  const GroupRunner group(R"(graph g(%x: f32[a, n]) {
    %y = reduce_max_number(%x) {axes = [1], keepdims = 0}
    return %y as "y"
  })",
                          KernelKind::Row);
  for (const std::int64_t n : kLengths) {
    std::vector<Tensor> inputs = group.random_inputs({{"a", 3}, {"n", n}});
    for (std::int64_t i = 0; i < n; ++i) {
      // Nothing but NaN in the first row, every third of the second, none in the last.
      inputs[0].set_double(i, std::numeric_limits<double>::quiet_NaN());
      if (i % 3 == 0) inputs[0].set_double(n + i, std::numeric_limits<double>::quiet_NaN());
    }
    group.check(inputs);
  }
}

TEST(RowSchedule, ResidualAndLayerNormAreOneKernelWithTwoOutputs) {
  const GroupRunner group(R"(graph g(%x: f32[a, b, n], %r: f32[a, b, n], %s: f32[n], %t: f32[n]) {
    %h = add(%x, %r)
    %y = layer_norm(%h, %s, %t) {axis = -1, epsilon = 1e-05}
    return %h as "h", %y as "y"
  })",
                          KernelKind::Row);
  for (const std::int64_t n : kLengths) group.check({{"a", 2}, {"b", 3}, {"n", n}});
}

TEST(RowSchedule, RmsNormOfHalvesKeepsItsStatisticsInF32) {
  const GroupRunner group(R"(graph g(%x: f16[a, 768], %s: f16[768]) {
    %y = rms_norm(%x, %s) {axis = -1, epsilon = 1e-05}
    return %y as "y"
  })",
                          KernelKind::Row);
  std::vector<Tensor> inputs = group.random_inputs({{"a", 2}});
  for (std::int64_t i = 0; i < inputs[0].num_elements(); ++i) inputs[0].set_double(i, 8000);
  group.check(inputs);
}

TEST(RowSchedule, EveryReductionInOnePass) {
  const GroupRunner group(R"(graph g(%x: f32[a, n]) {
    %s = reduce_sum(%x) {axes = [1], keepdims = 0}
    %m = reduce_mean(%x) {axes = [1], keepdims = 1}
    %h = reduce_max(%x) {axes = [1], keepdims = 0}
    %l = reduce_min(%x) {axes = [1], keepdims = 0}
    %q = reduce_sum_square(%x) {axes = [1], keepdims = 0}
    %e = reduce_l2(%x) {axes = [1], keepdims = 0}
    %b = reduce_l1(%x) {axes = [1], keepdims = 0}
    return %s as "s", %m as "m", %h as "h", %l as "l", %q as "q", %e as "e", %b as "b"
  })",
                          KernelKind::Row);
  for (const std::int64_t n : kLengths) group.check({{"a", 3}, {"n", n}});
}

TEST(RowSchedule, ReductionsOverSeveralAxesAndTheWholeTensor) {
  const GroupRunner outer(R"(graph g(%x: f32[a, b, n]) {
    %s = reduce_sum(%x) {axes = [0, 2], keepdims = 0}
    return %s as "s"
  })",
                          KernelKind::Row);
  const GroupRunner whole(R"(graph g(%x: f32[a, b, n]) {
    %s = reduce_max(%x) {axes = [0, 1, 2], keepdims = 0}
    return %s as "s"
  })",
                          KernelKind::Row);
  for (const std::int64_t n : kLengths) {
    outer.check({{"a", 2}, {"b", 3}, {"n", n}});
    whole.check({{"a", 2}, {"b", 3}, {"n", n}});
  }
}

TEST(RowSchedule, ArgReductionsFindTheFirst) {
  const GroupRunner group(R"(graph g(%x: i32[a, n]) {
    %i = argmax(%x) {axis = 1, keepdims = 0, select_last = 0}
    %j = argmin(%x) {axis = 1, keepdims = 0, select_last = 1}
    return %i as "i", %j as "j"
  })",
                          KernelKind::Row);
  for (const std::int64_t n : {1, 3, 8, 17, 33, 640}) group.check({{"a", 4}, {"n", n}});
}

int count_of(const std::string& text, const std::string& what) {
  int count = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(RowSchedule, PrefetchesTheNextRowWhereMostIsComputed) {
  const GroupRunner softmax(kSoftmax, KernelKind::Row);
  const std::string text = softmax.program_text();
  const auto fetches = text.find("prefetch x0[min(i0 + 1, ");
  EXPECT_EQ(count_of(text, "prefetch "), 1) << text;
  EXPECT_LT(text.find("exp("), fetches) << text;
  EXPECT_LT(fetches, text.find("store y0")) << text;

  // Of passes that are all cheap it is the last. What is the same for every row is not fetched
  // again, nor what one pass reads only once.
  const GroupRunner norm(R"(graph g(%x: f32[a, n], %r: f32[a, n], %s: f32[n], %t: f32[n]) {
    %h = add(%x, %r)
    %y = layer_norm(%h, %s, %t) {axis = -1, epsilon = 1e-05}
    return %y as "y"
  })",
                         KernelKind::Row);
  EXPECT_EQ(count_of(norm.program_text(), "prefetch x0["), 1) << norm.program_text();
  EXPECT_LT(norm.program_text().find("store y0"), norm.program_text().find("prefetch x0["));
  EXPECT_EQ(count_of(norm.program_text(), "prefetch x1["), 1);
  EXPECT_EQ(count_of(norm.program_text(), "prefetch "), 2);
  const GroupRunner sum(R"(graph g(%x: f32[a, n]) {
    %y = reduce_sum(%x) {axes = [1], keepdims = 0}
    return %y as "y"
  })",
                        KernelKind::Row);
  EXPECT_EQ(count_of(sum.program_text(), "prefetch "), 0);
}

// The positions of the next row are read ahead of their check: a wrong one must do no harm, be it
// of the next row or of the last one, and is told by the row that has it.
TEST(RowSchedule, PrefetchesRowsOfATableByPosition) {
  const GroupRunner group(R"(graph g(%i: i64[a], %t: f32[7, n], %s: f32[n], %b: f32[n]) {
    %x = gather(%t, %i) {axis = 0}
    %y = layer_norm(%x, %s, %b) {axis = -1, epsilon = 1e-05}
    return %y as "y"
  })",
                          KernelKind::Row);
  EXPECT_EQ(count_of(group.program_text(), "prefetch x1["), 1) << group.program_text();
  EXPECT_EQ(count_of(group.program_text(), "check "), 1);
  for (const std::int64_t n : kLengths) {
    for (const std::int64_t rows : {0, 1, 2, 5}) group.check({{"a", rows}, {"n", n}});
  }
  for (const std::int64_t wrong : {std::int64_t{7}, std::int64_t{-8}, std::int64_t{1} << 60,
                                   std::numeric_limits<std::int64_t>::min()}) {
    for (const std::int64_t row : {0, 1, 4}) {
      std::vector<Tensor> inputs = group.random_inputs({{"a", 5}, {"n", 33}});
      inputs[0].set_int(row, wrong);
      const auto result = group.run(inputs);
      ASSERT_FALSE(result) << wrong << " in row " << row;
      EXPECT_NE(result.error().message.find("out of range"), std::string::npos);
    }
  }
}

TEST(ReduceSchedule, OuterAndMiddleAxes) {
  const GroupRunner group(R"(graph g(%x: f32[a, b, n]) {
    %s = reduce_sum(%x) {axes = [1], keepdims = 0}
    %m = reduce_max(%x) {axes = [1], keepdims = 1}
    return %s as "s", %m as "m"
  })",
                          KernelKind::Reduce);
  for (const std::int64_t n : kLengths) group.check({{"a", 2}, {"b", 5}, {"n", n}});
  group.check({{"a", 2}, {"b", 1}, {"n", 4}});
}

TEST(ReduceSchedule, SoftmaxOverAMiddleAxis) {
  const GroupRunner group(R"(graph g(%x: f32[a, b, n]) {
    %y = softmax(%x) {axis = 1}
    return %y as "y"
  })",
                          KernelKind::Reduce);
  for (const std::int64_t n : kLengths) group.check({{"a", 2}, {"b", 5}, {"n", n}});
}

TEST(MoveSchedule, TransposesOfAnyShape) {
  const GroupRunner group(R"(graph g(%x: f32[a, b, n]) {
    %y = transpose(%x) {permutation = [0, 2, 1]}
    return %y as "y"
  })",
                          KernelKind::Move);
  for (const std::int64_t n : kLengths) {
    group.check({{"a", 2}, {"b", 37}, {"n", n}});
    group.check({{"a", 1}, {"b", n}, {"n", 5}});
  }
}

}  // namespace
}  // namespace opweld::testing
