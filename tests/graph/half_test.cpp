#include "graph/half.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

namespace opweld {
namespace {

// A format by its definition: value = (-1)^s * 2^(e - bias) * 1.f, or 2^(1 - bias) * 0.f.
struct Format16 {
  const char* name;
  int fraction_bits;
  int bias;
  std::uint16_t (*encode)(double);
  double (*decode)(std::uint16_t);

  [[nodiscard]] int max_exponent() const { return (1 << (15 - fraction_bits)) - 1; }
  [[nodiscard]] double value(std::uint16_t bits) const {
    const int exponent = (bits & 0x7fff) >> fraction_bits;
    const int fraction = bits & ((1 << fraction_bits) - 1);
    double magnitude = 0;
    if (exponent == max_exponent()) {
      magnitude = fraction == 0 ? INFINITY : NAN;
    } else if (exponent == 0) {
      magnitude = std::ldexp(fraction, 1 - bias - fraction_bits);
    } else {
      magnitude = std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    }
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  }
};

class Half : public ::testing::TestWithParam<Format16> {
 protected:
  // The nearest value by search over all of them, ties to the even one; what IEEE 754 asks for.
  static std::uint16_t nearest(double value) {
    const Format16& format = GetParam();
    const auto infinity = static_cast<std::uint16_t>(format.max_exponent() << format.fraction_bits);
    const double magnitude = std::fabs(value);
    const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    // Bits of positive values ascend with the values; the first that is not below is the upper
    // neighbour. Beyond the largest finite value the neighbour would be the next power of two.
    std::uint16_t low = 0;
    std::uint16_t high = infinity;
    while (low < high) {
      const auto middle = static_cast<std::uint16_t>((low + high) / 2);
      if (format.value(middle) < magnitude) {
        low = static_cast<std::uint16_t>(middle + 1);
      } else {
        high = middle;
      }
    }
    const auto upper = low;
    if (upper == 0) return sign;
    const auto lower = static_cast<std::uint16_t>(upper - 1);
    const double upper_value = upper == infinity
                                   ? std::ldexp(1.0, format.max_exponent() - format.bias)
                                   : format.value(upper);
    const double below = magnitude - format.value(lower);
    const double above = upper_value - magnitude;
    const bool up = above < below || (above == below && upper % 2 == 0);
    return sign | (up ? upper : lower);
  }
};

TEST_P(Half, DecodesEveryPattern) {
  for (int bits = 0; bits <= 0xffff; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const double expected = GetParam().value(pattern);
    const double actual = GetParam().decode(pattern);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(actual)) << bits;
    } else {
      ASSERT_EQ(std::bit_cast<std::uint64_t>(actual), std::bit_cast<std::uint64_t>(expected))
          << bits;
    }
  }
}

TEST_P(Half, EncodesWhatItDecodes) {
  for (int bits = 0; bits <= 0xffff; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const double value = GetParam().decode(pattern);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(GetParam().decode(GetParam().encode(value)))) << bits;
    } else {
      ASSERT_EQ(GetParam().encode(value), pattern);
    }
  }
}

TEST_P(Half, RoundsToNearestEven) {
  for (int bits = 0; bits < GetParam().max_exponent() << GetParam().fraction_bits; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const double value = GetParam().value(pattern);
    const double next = bits + 1 == GetParam().max_exponent() << GetParam().fraction_bits
                            ? std::ldexp(1.0, GetParam().max_exponent() - GetParam().bias)
                            : GetParam().value(static_cast<std::uint16_t>(bits + 1));
    const double middle = value + (next - value) / 2;  // exact
    for (const double tested : {middle, std::nextafter(middle, 0), std::nextafter(middle, 1e300)}) {
      ASSERT_EQ(GetParam().encode(tested), nearest(tested)) << tested;
      ASSERT_EQ(GetParam().encode(-tested), nearest(-tested)) << tested;
    }
  }
}

TEST_P(Half, RoundsRandomDoubles) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 50'000; ++i) {
    const auto any = std::bit_cast<double>(random());
    if (std::isnan(any)) continue;
    ASSERT_EQ(GetParam().encode(any), nearest(any)) << any;
    const double moderate = std::ldexp(static_cast<double>(random() >> 11), -60 + i % 20);
    ASSERT_EQ(GetParam().encode(moderate), nearest(moderate)) << moderate;
  }
}

TEST_P(Half, KeepsSpecialValues) {
  const auto round = [](double value) { return GetParam().decode(GetParam().encode(value)); };
  EXPECT_EQ(round(INFINITY), INFINITY);
  EXPECT_EQ(round(-INFINITY), -INFINITY);
  EXPECT_TRUE(std::isnan(round(NAN)));
  EXPECT_TRUE(std::isnan(round(std::bit_cast<double>(0x7ff0000000000001))))
      << "a NaN whose payload is below the format's fraction must not become infinity";
  EXPECT_TRUE(std::signbit(round(-0.0)));
  EXPECT_TRUE(std::signbit(round(-1e-320)));
  EXPECT_EQ(round(-1e-320), 0.0);
}

INSTANTIATE_TEST_SUITE_P(Formats, Half,
                         ::testing::Values(Format16{"f16", 10, 15, to_f16_bits, from_f16_bits},
                                           Format16{"bf16", 7, 127, to_bf16_bits, from_bf16_bits}),
                         [](const auto& format) { return std::string(format.param.name); });

TEST(HalfConstants, AsPublished) {
  EXPECT_EQ(to_f16_bits(1.0), 0x3c00);
  EXPECT_EQ(to_f16_bits(65504.0), 0x7bff);
  EXPECT_EQ(to_f16_bits(65520.0), 0x7c00);
  EXPECT_EQ(to_f16_bits(0x1p-24), 0x0001);
  EXPECT_EQ(to_f16_bits(-2.0), 0xc000);
  EXPECT_EQ(to_bf16_bits(1.0), 0x3f80);
  EXPECT_EQ(to_bf16_bits(3.140625), 0x4049);
}

}  // namespace
}  // namespace opweld
