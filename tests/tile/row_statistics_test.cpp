// Statistics of a matmul's rows, out of its epilogue, against the reference in f64; with strict
// numerics bit by bit against a kernel of the matmul and one of the reductions.
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "tile/gate_pair.h"
#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

using ::testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Every reduction that rows can be put through, of %p: [m, n].
constexpr const char* kEveryReduction = R"(
    %s = reduce_sum(%p) {axes = [1], keepdims = 0}
    %m = reduce_mean(%p) {axes = [1], keepdims = 1}
    %h = reduce_max(%p) {axes = [1], keepdims = 0}
    %l = reduce_min(%p) {axes = [1], keepdims = 1}
    %q = reduce_sum_square(%p) {axes = [1], keepdims = 0}
    %e = reduce_l2(%p) {axes = [1], keepdims = 0}
    %b = reduce_l1(%p) {axes = [1], keepdims = 0}
    %pp = mul(%p, %p)
    %g = reduce_log_sum(%pp) {axes = [1], keepdims = 0}
    %t = tanh(%p)
    %f = reduce_prod(%t) {axes = [1], keepdims = 0}
    %z = lt(%p, %limit)
    %o = reduce_any(%z) {axes = [1], keepdims = 0}
    %a = reduce_all(%z) {axes = [1], keepdims = 0}
)";
constexpr const char* kEveryResult =
    R"(%s as "s", %m as "m", %h as "h", %l as "l", %q as "q", %e as "e", %b as "b", %g as "g",
       %f as "f", %o as "o", %a as "a")";

// The same of places, of which rows of no columns have none.
constexpr const char* kEveryPlace = R"(
    %i = argmax(%p) {axis = 1, keepdims = 0, select_last = 0}
    %j = argmax(%p) {axis = 1, keepdims = 1, select_last = 1}
    %u = argmin(%p) {axis = 1, keepdims = 0, select_last = 0}
    %v = argmin(%p) {axis = 1, keepdims = 0, select_last = 1}
)";
constexpr const char* kPlaces = R"(%i as "i", %j as "j", %u as "u", %v as "v")";

struct Reductions {
  const char* body;
  const char* results;
};
constexpr Reductions kReductions[] = {{kEveryReduction, kEveryResult}, {kEveryPlace, kPlaces}};

// A product that may be stored as well, and reductions of its rows.
std::string product_of(const std::string& dtype, const Reductions& reductions, bool stored) {
  return fmt::format(
      "graph g(%x: {0}[m, 3], %w: {0}[3, n], %limit: {0}[]) {{\n%p = matmul(%x, %w)\n{1}return "
      "{2}{3}\n}}",
      dtype, reductions.body, stored ? "%p as \"p\", " : "", reductions.results);
}

// Multiples of 1/4, so that products are exact in f32, and equal ones are equal.
std::vector<Tensor> exact_inputs(const GroupRunner& group, const Bindings& sizes, unsigned seed) {
  std::vector<Tensor> inputs = group.random_inputs(sizes, seed);
  for (Tensor& input : inputs) {
    for (std::int64_t i = 0; i < input.num_elements(); ++i) {
      input.set_double(i, std::round(input.get_double(i) * 4) / 4);
    }
  }
  return inputs;
}

void expect_same_bits(const Tensor& actual, const Tensor& expected, const std::string& name) {
  ASSERT_EQ(actual.sizes(), expected.sizes()) << name;
  const auto bytes = static_cast<std::size_t>(actual.num_bytes());
  EXPECT_TRUE(bytes == 0 || std::memcmp(actual.data(), expected.data(), bytes) == 0) << name;
}

class RowStatistics : public ::testing::TestWithParam<std::string> {
 protected:
  static GroupRunner group(const std::string& text, bool strict = false) {
    return {text, KernelKind::Contract, GetParam(), strict};
  }
};

TEST_P(RowStatistics, EveryReductionAtEveryTail) {
  for (const Reductions& reductions : kReductions) {
    for (const bool stored : {true, false}) {
      const GroupRunner every = group(product_of("f32", reductions, stored));
      ASSERT_EQ(every.error(), "");
      for (const std::int64_t n : kLengths) {
        if (n == 0 && reductions.body == kEveryPlace) continue;
        for (const std::int64_t m : {0, 1, 2, 7, 250}) {
          if (m == 250 && n > 33) continue;
          SCOPED_TRACE(fmt::format("{} x {}", m, n));
          every.check(exact_inputs(every, {{"m", m}, {"n", n}}, 1));
        }
      }
      every.check(exact_inputs(every, {{"m", 211}, {"n", 640}}, 2));
    }
  }
}

TEST_P(RowStatistics, NoColumnsGiveWhatTheReductionGivesOfNothing) {
  const GroupRunner every = group(product_of("f32", kReductions[0], true));
  const auto results = every.run(every.random_inputs({{"m", 3}, {"n", 0}})).value();
  const std::array<double, 11> expected = {0, kNan,       -kInfinity, kInfinity, 0, 0,
                                           0, -kInfinity, 1,          0,         1};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    for (std::int64_t row = 0; row < 3; ++row) {
      const double actual = results[i + 1].get_double(row);
      const bool both_nan = std::isnan(actual) && std::isnan(expected[i]);
      EXPECT_TRUE(both_nan || actual == expected[i]) << "result " << i << ": " << actual;
    }
  }
}

// One special value in a column of each vector and tail, by way of a depth of one.
TEST_P(RowStatistics, NanAndInfinities) {
  const GroupRunner group = RowStatistics::group(R"(graph g(%x: f32[m, 1], %w: f32[1, n]) {
    %p = matmul(%x, %w)
    %s = reduce_sum(%p) {axes = [1], keepdims = 0}
    %h = reduce_max(%p) {axes = [1], keepdims = 0}
    %l = reduce_min(%p) {axes = [1], keepdims = 0}
    %q = reduce_sum_square(%p) {axes = [1], keepdims = 0}
    %i = argmax(%p) {axis = 1, keepdims = 0, select_last = 0}
    %j = argmin(%p) {axis = 1, keepdims = 0, select_last = 1}
    return %s as "s", %h as "h", %l as "l", %q as "q", %i as "i", %j as "j"
  })");
  for (const std::int64_t n : {1, 7, 8, 16, 17, 33, 100}) {
    for (const double special : {kNan, kInfinity, -kInfinity}) {
      for (std::int64_t column = 0; column < n; ++column) {
        SCOPED_TRACE(fmt::format("{} at {} of {}", special, column, n));
        std::vector<Tensor> inputs = exact_inputs(group, {{"m", 3}, {"n", n}}, 1);
        inputs[0].set_double(0, 1);
        inputs[0].set_double(1, -2);
        inputs[0].set_double(2, 0);  // 0 * inf is NaN
        inputs[1].set_double(column, special);
        group.check(inputs);
        if (HasFailure()) return;
      }
    }
    // Nothing but one value, so that lanes behind the last column could win.
    for (const double all : {kNan, kInfinity, -kInfinity, -1.0, 0.0}) {
      SCOPED_TRACE(fmt::format("all {}", all));
      std::vector<Tensor> inputs = exact_inputs(group, {{"m", 2}, {"n", n}}, 1);
      for (std::int64_t i = 0; i < 2; ++i) inputs[0].set_double(i, i == 0 ? 1 : -1);
      for (std::int64_t i = 0; i < n; ++i) inputs[1].set_double(i, all);
      group.check(inputs);
    }
  }
}

TEST_P(RowStatistics, WhatFollowsFromThemAlone) {
  for (const std::string dtype : {"f32", "f16", "bf16"}) {
    const GroupRunner norm = group(fmt::format(R"(graph g(%x: {0}[b, s, 29], %r: {0}[b, s, 70],
                                                          %c: {0}[b, s, 1]) {{
      %w = constant {{value = {0}[29, 70] random 1}}
      %epsilon = constant {{value = {0}[] {{0.25}}}}
      %p = matmul(%x, %w)
      %h = add(%p, %r)
      %q = mul(%h, %h)
      %m = reduce_mean(%q) {{axes = [-1], keepdims = 1}}
      %a = add(%m, %epsilon)
      %i = rsqrt(%a)
      %y = mul(%i, %c)
      %f = reshape(%y) {{shape = <b * s>}}
      %k = reduce_max(%h) {{axes = [2], keepdims = 0}}
      return %h as "h", %i as "i", %f as "f", %k as "k"
    }})",
                                               dtype));
    ASSERT_EQ(norm.error(), "");
    for (const std::int64_t s : {0, 1, 5, 130}) norm.check({{"b", 2}, {"s", s}});
  }
}

TEST_P(RowStatistics, MatmulsOfABatch) {
  const GroupRunner batch = group(R"(graph g(%x: f32[b, c, m, 5], %w: f32[b, 1, 5, n]) {
    %p = matmul(%x, %w)
    %s = reduce_sum_square(%p) {axes = [3], keepdims = 1}
    %f = reshape(%p) {shape = <b * c * m, n>}
    %h = reduce_max(%f) {axes = [1], keepdims = 0}
    %y = reshape(%h) {shape = <b * c, m>}
    return %p as "p", %s as "s", %y as "y"
  })");
  ASSERT_EQ(batch.error(), "");
  for (const std::int64_t n : {0, 1, 17, 100}) {
    for (const std::int64_t m : {0, 1, 7, 230}) {
      batch.check({{"b", 2}, {"c", 3}, {"m", m}, {"n", n}});
      batch.check({{"b", 1}, {"c", 1}, {"m", m}, {"n", n}});
    }
  }
  batch.check({{"b", 0}, {"c", 3}, {"m", 2}, {"n", 5}});
}

TEST_P(RowStatistics, AxesOfOneElementMayGoWithTheRows) {
  const GroupRunner one = group(R"(graph g(%x: f32[1, 1, 7], %w: f32[7, n]) {
    %p = matmul(%x, %w)
    %s = reduce_max(%p) {axes = [1, 2], keepdims = 0}
    %t = reduce_min(%p) {keepdims = 0}
    return %s as "s", %t as "t"
  })");
  ASSERT_EQ(one.error(), "");
  for (const std::int64_t n : kLengths) one.check({{"n", n}});
}

TEST_P(RowStatistics, OfGatePairs) {
  for (const std::string dtype : {"f32", "bf16"}) {
    for (const std::int64_t columns : {1, 16, 37, 100}) {
      std::string text = gate_pair(dtype, 50, columns);
      const auto end = text.rfind("return ");
      const auto behind = text.find(" as ", end);
      const std::string value = text.substr(end + 7, behind - end - 7);
      text = text.substr(0, end) + "%st = reduce_l1(" + value +
             ") {axes = [-1], keepdims = 0}\nreturn " + value + " as \"y\", %st as \"st\"\n}";
      const GroupRunner pair = group(text);
      ASSERT_EQ(pair.error(), "") << text;
      for (const std::int64_t s : {1, 7, 45, 220}) pair.check({{"b", 1}, {"s", s}});
    }
  }
}

TEST_P(RowStatistics, OfGroups) {
  const GroupRunner grouped = group(R"(graph g(%x: f32[t, 13], %c: i64[3]) {
    %w = constant {value = f32[3, 13, 37] random 1}
    %y = grouped_matmul(%x, %w, %c)
    %s = reduce_sum_square(%y) {axes = [1], keepdims = 0}
    return %y as "y", %s as "s"
  })");
  ASSERT_EQ(grouped.error(), "");
  for (const auto& [first, second, third] :
       {std::array{0, 0, 0}, {1, 0, 0}, {0, 7, 5}, {100, 3, 150}}) {
    std::vector<Tensor> inputs = grouped.random_inputs({{"t", first + second + third}});
    inputs[1].set_int(0, first);
    inputs[1].set_int(1, second);
    inputs[1].set_int(2, third);
    grouped.check(inputs);
  }
}

TEST_P(RowStatistics, DoNotDependOnWhichTaskIsLast) {
  const GroupRunner group = RowStatistics::group(R"(graph g(%x: f32[m, 64]) {
    %w = constant {value = f32[64, 1000] random 1}
    %p = matmul(%x, %w)
    %s = reduce_sum(%p) {axes = [1], keepdims = 0}
    %q = reduce_sum_square(%p) {axes = [1], keepdims = 0}
    %i = argmax(%p) {axis = 1, keepdims = 0, select_last = 0}
    return %s as "s", %q as "q", %i as "i"
  })");
  for (const std::int64_t m : {1, 5, 300}) {
    const std::vector<Tensor> inputs = group.random_inputs({{"m", m}});
    const auto forwards = group.run(inputs).value();
    const auto backwards = group.run(inputs, GroupRunner::Order::LastTaskFirst).value();
    for (std::size_t i = 0; i < forwards.size(); ++i) {
      expect_same_bits(backwards[i], forwards[i], group.graph().outputs()[i].name);
    }
  }
}

// As two kernels would have it: the product stored, then its rows reduced.
void check_strict(const std::string& dtype, const Reductions& of, const std::string& target) {
  const auto strict = [&](const std::string& text, KernelKind kind) {
    return GroupRunner(text, kind, target, /*strict=*/true);
  };
  const GroupRunner fused = strict(product_of(dtype, of, true), KernelKind::Contract);
  const GroupRunner product =
      strict(product_of(dtype, {"", "%p as \"p\""}, false), KernelKind::Contract);
  const GroupRunner reductions =
      strict(fmt::format("graph g(%p: {0}[m, n], %limit: {0}[]) {{\n{1}return {2}\n}}", dtype,
                         of.body, of.results),
             KernelKind::Row);
  ASSERT_EQ(fused.error() + product.error() + reductions.error(), "");
  for (const std::int64_t n : kLengths) {
    if (n == 0 && of.body == kEveryPlace) continue;
    for (const std::int64_t m : {0, 1, 7, 250}) {
      SCOPED_TRACE(fmt::format("{} x {} of {}", m, n, dtype));
      const std::vector<Tensor> inputs = fused.random_inputs({{"m", m}, {"n", n}});
      const Tensor p = product.run(inputs).value().front();
      const auto expected = reductions.run({p, inputs[2]}).value();
      const auto actual = fused.run(inputs).value();
      expect_same_bits(actual[0], p, "p");
      for (std::size_t i = 0; i < expected.size(); ++i) {
        expect_same_bits(actual[i + 1], expected[i], fused.graph().outputs()[i + 1].name);
      }
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST_P(RowStatistics, StrictIsBitForBitWhatTwoKernelsGive) {
  for (const std::string dtype : {"f32", "f16", "bf16", "f64"}) {
    for (const Reductions& reductions : kReductions) check_strict(dtype, reductions, GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, RowStatistics, ::testing::Values("host", "host-avx2"),
                         [](const auto& target) {
                           return target.param == "host" ? "Widest" : "Avx2";
                         });

TEST(RowStatisticsSchedule, OfTheMatrixUnit) {
  for (const char* target : {"host-amx", "host-avx512"}) {
    if (!find_target(target)) continue;  // the processor has no such unit
    const GroupRunner group(R"(graph g(%x: bf16[m, 96]) {
      %w = constant {value = bf16[96, 83] random 3}
      %scale = constant {value = bf16[] {0.125}}
      %p = matmul(%x, %w)
      %y = mul(%p, %scale)
      %s = reduce_sum_square(%y) {axes = [1], keepdims = 0}
      %h = reduce_max(%y) {axes = [1], keepdims = 0}
      return %y as "y", %s as "s", %h as "h"
    })",
                            KernelKind::Contract, target);
    ASSERT_EQ(group.error(), "");
    for (const std::int64_t m : {0, 1, 16, 33, 300}) group.check({{"m", m}});
  }
}

std::string refusal(const std::string& body) {
  return GroupRunner(
             "graph g(%x: f32[m, 8], %w: f32[8, 64], %v: f32[64]) {\n%p = matmul(%x, %w)\n" + body +
                 "\n}",
             KernelKind::Contract)
      .error();
}

TEST(RowStatisticsSchedule, WhatNeedsWholeRowsAgainIsRefused) {
  EXPECT_THAT(refusal(R"(%h = reduce_max(%p) {axes = [1], keepdims = 1}
                         %y = sub(%p, %h)
                         return %y as "y")"),
              HasSubstr("and of the whole row again"));
  EXPECT_THAT(refusal(R"(%h = reduce_max(%p) {axes = [1], keepdims = 1}
                         %d = sub(%p, %h)
                         %e = exp(%d)
                         %y = reduce_sum(%e) {axes = [1], keepdims = 1}
                         return %y as "y")"),
              HasSubstr("of another statistic"));
  EXPECT_THAT(refusal(R"(%y = softmax(%p) {axis = -1}
                         return %y as "y")"),
              HasSubstr("another statistic"));
}

TEST(RowStatisticsSchedule, OtherAxesAndOtherShapesAreRefused) {
  EXPECT_THAT(refusal(R"(%y = reduce_max(%p) {axes = [0], keepdims = 1}
                         return %y as "y")"),
              HasSubstr("other axes"));
  EXPECT_THAT(refusal(R"(%y = reduce_max(%p) {axes = [0, 1], keepdims = 1}
                         return %y as "y")"),
              HasSubstr("other axes"));
  EXPECT_THAT(refusal(R"(%h = reduce_max(%p) {axes = [1], keepdims = 1}
                         %y = mul(%h, %v)
                         return %y as "y")"),
              HasSubstr("one element for each row"));
  EXPECT_THAT(refusal(R"(%r = reshape(%p) {shape = <m, 2, 32>}
                         %y = reduce_max(%r) {axes = [2], keepdims = 1}
                         return %y as "y")"),
              HasSubstr("other rows"));
  EXPECT_THAT(refusal(R"(%t = transpose(%p) {permutation = [1, 0]}
                         %y = reduce_max(%t) {axes = [1], keepdims = 1}
                         return %y as "y")"),
              HasSubstr("other rows"));
}

}  // namespace
}  // namespace opweld::testing
