// Operators over a few elements inside a kernel (ops/few_elements.h): choices with what is around
// them, sums of a few.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string choice(DType dtype, std::int64_t k, const std::string& columns = "n") {
  return fmt::format(R"(graph g(%x: {}[a, {}]) {{
    %v, %i = top_k(%x) {{axis = 1, k = <{}>}}
    return %v as "v", %i as "i"
  }})",
                     to_string(dtype), columns, k);
}

Tensor rows(DType dtype, std::int64_t columns, const std::vector<double>& values) {
  const std::int64_t count = std::ssize(values) / columns;
  Tensor tensor = Tensor::allocate(dtype, {count, columns}).value();
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    const double value = values[static_cast<std::size_t>(i)];
    if (is_float(dtype)) tensor.set_double(i, value);
    if (!is_float(dtype)) tensor.set_int(i, static_cast<std::int64_t>(value));
  }
  return tensor;
}

// What is chosen of a row by sorting all of it, NaN before all numbers, equals in order.
std::vector<std::int64_t> ranking(const Tensor& x, std::int64_t row) {
  const std::int64_t columns = x.sizes()[1];
  std::vector<std::int64_t> order(static_cast<std::size_t>(columns));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    if (!is_float(x.dtype())) {
      return x.get_int(row * columns + a) > x.get_int(row * columns + b);
    }
    const double left = x.get_double(row * columns + a);
    const double right = x.get_double(row * columns + b);
    if (std::isnan(left) || std::isnan(right)) return std::isnan(left) && !std::isnan(right);
    return left > right;
  });
  return order;
}

void expect_chosen(const GroupRunner& group, const Tensor& x) {
  ASSERT_EQ(group.error(), "");
  const auto results = group.run({x});
  ASSERT_TRUE(results) << results.error().message;
  const Tensor& values = (*results)[0];
  const Tensor& indices = (*results)[1];
  const std::int64_t columns = x.sizes()[1];
  const std::int64_t k = indices.sizes()[1];
  for (std::int64_t row = 0; row < x.sizes()[0]; ++row) {
    const std::vector<std::int64_t> order = ranking(x, row);
    for (std::int64_t j = 0; j < k; ++j) {
      const std::int64_t best = order[static_cast<std::size_t>(j)];
      ASSERT_EQ(indices.get_int(row * k + j), best) << "row " << row << ", choice " << j;
      if (!is_float(x.dtype())) {
        ASSERT_EQ(values.get_int(row * k + j), x.get_int(row * columns + best));
      } else if (std::isnan(x.get_double(row * columns + best))) {
        ASSERT_TRUE(std::isnan(values.get_double(row * k + j)));
      } else {
        ASSERT_EQ(values.get_double(row * k + j), x.get_double(row * columns + best));
      }
    }
  }
}

constexpr DType kNumberTypes[] = {DType::F64, DType::F32, DType::F16, DType::BF16, DType::I64,
                                  DType::I32, DType::I16, DType::I8,  DType::U8};

TEST(FewElements, ChoicesOfEveryTypeAndLength) {
  for (const DType dtype : kNumberTypes) {
    SCOPED_TRACE(std::string(to_string(dtype)));
    for (const std::int64_t k : {1, 2, 3, 8}) {
      const GroupRunner group(choice(dtype, k), KernelKind::Row);
      for (const std::int64_t n : kLengths) {
        if (n < k) continue;
        for (const std::int64_t a : {0, 1, 5}) {
          expect_chosen(group, random_tensor({dtype, {}}, {a, n}, static_cast<unsigned>(n + k)));
        }
      }
    }
  }
}

TEST(FewElements, ChoicesOfAllThereAre) {
  for (const std::int64_t k : {1, 2, 5, 8}) {
    const GroupRunner group(choice(DType::F32, k, std::to_string(k)), KernelKind::Row);
    expect_chosen(group, random_tensor({DType::F32, {}}, {7, k}, 3));
    expect_chosen(group, rows(DType::F32, k, std::vector<double>(static_cast<std::size_t>(k))));
  }
}

TEST(FewElements, OfEqualsTheFirstAreChosen) {
  const std::vector<double> values = {4, 4, 4, 4, 4, 1, 2, 2, 2, 1, 0, 3, 0, 3, 0, 5, 5, 3, 3, 3};
  for (const DType dtype : kNumberTypes) {
    for (const std::int64_t k : {1, 3, 5}) {
      expect_chosen(GroupRunner(choice(dtype, k), KernelKind::Row), rows(dtype, 5, values));
    }
  }
}

TEST(FewElements, NanIsTheGreatestAndInfinitiesAreNumbers) {
  const double least = -kInfinity;
  const std::vector<double> values = {
      kNan,      1,         kNan,  least, kInfinity,  // two that are no numbers
      least,     least,     least, least, least,      // nothing but what stands for those taken
      least,     3,         least, least, least,      // one beside them
      kInfinity, kInfinity, least, kNan,  0,          //
      kNan,      kNan,      kNan,  kNan,  kNan,       //
      -0.0,      0.0,       least, 0.0,   -0.0};
  for (const DType dtype : {DType::F64, DType::F32, DType::F16, DType::BF16}) {
    for (const std::int64_t k : {1, 2, 5}) {
      for (const char* target : {"host", "host-avx2"}) {
        expect_chosen(GroupRunner(choice(dtype, k), KernelKind::Row, target),
                      rows(dtype, 5, values));
      }
    }
  }
}

TEST(FewElements, TheLeastIntegersAreNumbersAsWell) {
  for (const DType dtype : {DType::I64, DType::I32, DType::I16, DType::I8, DType::U8}) {
    const int bits = 8 * static_cast<int>(byte_size(dtype));
    const std::int64_t least =
        dtype == DType::U8 ? 0 : std::numeric_limits<std::int64_t>::min() >> (64 - bits);
    Tensor x = Tensor::allocate(dtype, {2, 9}).value();
    for (std::int64_t i = 0; i < 18; ++i) x.set_int(i, i == 13 ? least + 1 : least);
    expect_chosen(GroupRunner(choice(dtype, 8), KernelKind::Row), x);
  }
}

TEST(FewElements, RowsOfOneAxisAndOfSeveral) {
  const GroupRunner one(R"(graph g(%x: f32[n]) {
    %v, %i = top_k(%x) {axis = 0, k = <2>}
    return %v as "v", %i as "i"
  })",
                        KernelKind::Row);
  const GroupRunner several(R"(graph g(%x: f32[a, b, n]) {
    %v, %i = top_k(%x) {axis = 2, k = <3>}
    %f = reshape(%i) {shape = <a*b*3>}
    return %v as "v", %f as "i"
  })",
                            KernelKind::Row);
  for (const std::int64_t n : {3, 17, 640}) {
    one.check({{"n", n}});
    several.check({{"a", 2}, {"b", 3}, {"n", n}});
  }
}

// What stands around the choice in a router: one kernel, also where the sum runs over the choices.
TEST(FewElements, ARouterIsOneKernel) {
  for (const int k : {1, 2, 3, 8}) {
    for (const char* after : {"div(%v, %t)", "softmax(%v) {axis = 1}"}) {
      const std::string text = fmt::format(R"(graph g(%x: f32[a, n]) {{
        %p = softmax(%x) {{axis = -1}}
        %v, %i = top_k(%p) {{axis = 1, k = <{}>}}
        %t = reduce_sum(%v) {{axes = [1], keepdims = 1}}
        %d = reduce_sum(%v) {{axes = [-1], keepdims = 0}}
        %w = {}
        return %w as "w", %i as "i", %d as "d"
      }})",
                                           k, after);
      for (const bool strict : {false, true}) {
        const GroupRunner group(text, KernelKind::Row, "host", strict);
        for (const std::int64_t n : {8, 15, 64, 129}) {
          group.check({{"a", 5}, {"n", n}});
          group.check({{"a", 0}, {"n", n}});
        }
      }
    }
  }
}

// A sum behind a choice has the bits that it has as a kernel of its own.
TEST(FewElements, SumsBehindAChoiceAreThoseOfAKernelOfTheirOwn) {
  for (const char* target : {"host", "host-avx2"}) {
    for (const char* dtype : {"f32", "f16", "bf16"}) {
      for (const int k : {1, 2, 3, 5, 7, 8}) {
        const GroupRunner both(fmt::format(R"(graph g(%x: {}[a, 19]) {{
          %v, %i = top_k(%x) {{axis = 1, k = <{}>}}
          %t = reduce_sum(%v) {{axes = [1], keepdims = 1}}
          return %v as "v", %t as "t"
        }})",
                                           dtype, k),
                               KernelKind::Row, target, true);
        const GroupRunner alone(fmt::format(R"(graph g(%v: {}[a, {}]) {{
          %t = reduce_sum(%v) {{axes = [1], keepdims = 1}}
          return %t as "t"
        }})",
                                            dtype, k),
                                KernelKind::Row, target, true);
        const auto together = both.run(both.random_inputs({{"a", 40}})).value();
        const Tensor sums = alone.run({together[0]}).value()[0];
        ASSERT_EQ(std::memcmp(sums.data(), together[1].data(),
                              static_cast<std::size_t>(sums.num_bytes())),
                  0)
            << target << " " << dtype << " " << k;
      }
    }
  }
}

TEST(FewElements, OtherChoicesStayCalls) {
  for (const char* attributes : {"axis = 1, k = <9>", "axis = 1, k = <2>, largest = 0",
                                 "axis = 0, k = <2>", "axis = 1, k = <m>", "axis = 1, k = <0>"}) {
    const GroupRunner group(fmt::format(R"(graph g(%x: f32[12, 12], %y: f32[m]) {{
      %v, %i = top_k(%x) {{{}}}
      return %v as "v", %i as "i"
    }})",
                                        attributes),
                            KernelKind::Row);
    EXPECT_NE(group.error(), "") << attributes;
  }
}

TEST(FewElements, AFewAlongAnotherAxisAreAMap) {
  for (const char* op : {"reduce_sum", "reduce_max", "reduce_min"}) {
    for (const char* dtype : {"f64", "f32", "f16", "bf16", "i64", "i8"}) {
      for (const int k : {1, 2, 8}) {
        const GroupRunner group(fmt::format(R"(graph g(%x: {0}[a, {1}, n], %r: {0}[a, n]) {{
          %s = {2}(%x) {{axes = [1], keepdims = 0}}
          %y = add(%s, %r)
          return %y as "y"
        }})",
                                            dtype, k, op),
                                KernelKind::Map);
        for (const std::int64_t n : kLengths) group.check({{"a", 3}, {"n", n}});
      }
    }
  }
}

TEST(FewElements, AFewWithNanAndInfinities) {
  const GroupRunner group(R"(graph g(%x: f32[3, 5]) {
    %s = reduce_sum(%x) {axes = [0], keepdims = 1}
    %l = reduce_max(%x) {axes = [-2], keepdims = 0}
    %t = reduce_min(%x) {axes = [0], keepdims = 0}
    %g = reduce_max_number(%x) {axes = [0], keepdims = 0}
    %m = reshape(%l) {shape = <1, 5>}
    %q = reshape(%t) {shape = <1, 5>}
    %n = reshape(%g) {shape = <1, 5>}
    return %s as "s", %m as "m", %q as "t", %n as "n"
  })",
                          KernelKind::Map);
  group.check({rows(
      DType::F32, 5,
      {kNan, 1, kInfinity, -kInfinity, 0, 2, kNan, 1, 1, -0.0, 1, 1, -kInfinity, -kInfinity, 0})});
  group.check({rows(DType::F32, 5, std::vector<double>(15, kNan))});
}

// Halves are added up in f32 and rounded once, strict or not.
TEST(FewElements, HalvesAreRoundedOnce) {
  for (const bool strict : {false, true}) {
    const GroupRunner group(R"(graph g(%x: f16[3, 4]) {
      %s = reduce_sum(%x) {axes = [0], keepdims = 0}
      return %s as "s"
    })",
                            KernelKind::Map, "host", strict);
    Tensor x = Tensor::allocate(DType::F16, {3, 4}).value();
    for (std::int64_t i = 0; i < 4; ++i) {
      x.set_double(i, 2048);
      x.set_double(4 + i, 1);
      x.set_double(8 + i, 1);
    }
    const Tensor sum = group.run({x}).value()[0];
    for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(sum.get_double(i), 2050);
  }
}

}  // namespace
}  // namespace opweld::testing
