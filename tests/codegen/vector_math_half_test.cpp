// f16 and bf16: every f16, and f32 values around every boundary of rounding.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "codegen/cpu/vector_math.h"
#include "vector_math_harness.h"

namespace opweld::cpu {
namespace {

using testing::floats_by_bits;
using testing::VectorFunction;

constexpr unsigned kLanes[] = {1, 3, 8, 16};

// With F16C and without it.
std::vector<JitTarget> targets() {
  return {JitTarget::host(), {"x86-64", "", 128}};
}

// The value of f16 or bf16 bits, by the definition of the formats.
double value_of(std::uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

// The nearest of all values of the format, to even: found by search, not by arithmetic on bits.
std::uint16_t nearest(float x, int exponent_bits, int mantissa_bits) {
  const std::uint16_t infinity =
      static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits);
  const double magnitude = std::fabs(static_cast<double>(x));
  std::uint16_t low = 0;
  std::uint16_t high = infinity;  // stands for the number after the largest
  const auto value = [&](std::uint16_t bits) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    return bits == infinity ? std::ldexp(1.0, bias + 1)
                            : value_of(bits, exponent_bits, mantissa_bits);
  };
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (value(middle) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - value(low);
  const double above = value(high) - magnitude;
  const bool up = above < below || (above == below && high % 2 == 0);
  return static_cast<std::uint16_t>((up ? high : low) | (std::signbit(x) ? 0x8000 : 0));
}

// Around every value of the format and every middle of two: exactly there, and one f32 beside.
std::vector<float> boundaries(int exponent_bits, int mantissa_bits) {
  std::vector<float> result = floats_by_bits(1000003);
  for (int bits = 0; bits < 0x8000; bits += 3) {
    const double here = value_of(static_cast<std::uint16_t>(bits), exponent_bits, mantissa_bits);
    const double next =
        value_of(static_cast<std::uint16_t>(bits + 1), exponent_bits, mantissa_bits);
    if (!std::isfinite(here)) continue;
    const double middle = std::isfinite(next) ? (here + next) / 2 : here;
    for (const double value : {here, middle}) {
      const auto x = static_cast<float>(value);
      for (const float y : {x, std::nextafter(x, INFINITY), std::nextafter(x, -INFINITY)}) {
        result.push_back(y);
        result.push_back(-y);
      }
    }
  }
  for (const float x : {65504.0F, 65519.996F, 65520.0F, 65536.0F, 3.4e38F, 0.0F, -0.0F}) {
    result.push_back(x);
  }
  return result;
}

struct Format {
  const char* name;
  int exponent_bits;
  int mantissa_bits;
  testing::Emit narrow;  // f32 to the bits
  testing::Emit widen;
};

void PrintTo(const Format& format, std::ostream* out) {
  *out << format.name;
}

llvm::Type* like(llvm::Value* value, llvm::Type* element) {
  return value->getType()->getWithNewType(element);
}

const Format kFormats[] = {
    {"f16", 5, 10,
     [](llvm::IRBuilderBase& builder, llvm::Value* x, llvm::Value*) {
       llvm::Value* const half = emit_f16_from_f32(builder, x);
       return builder.CreateBitCast(half, like(x, builder.getInt16Ty()));
     },
     [](llvm::IRBuilderBase& builder, llvm::Value* x, llvm::Value*) {
       return emit_f32_from_f16(builder, builder.CreateBitCast(x, like(x, builder.getHalfTy())));
     }},
    {"bf16", 8, 7,
     [](llvm::IRBuilderBase& builder, llvm::Value* x, llvm::Value*) {
       return emit_bf16_from_f32(builder, x);
     },
     [](llvm::IRBuilderBase& builder, llvm::Value* x, llvm::Value*) {
       return emit_f32_from_bf16(builder, x);
     }},
};

class HalfTypes : public ::testing::TestWithParam<Format> {};

TEST_P(HalfTypes, WidenEveryValueExactly) {
  const Format& format = GetParam();
  std::vector<std::uint16_t> all(0x10000);
  std::iota(all.begin(), all.end(), std::uint16_t{0});
  for (const JitTarget& target : targets()) {
    for (const unsigned lanes : kLanes) {
      const VectorFunction<std::uint16_t, float> widen(target, lanes, format.widen);
      const std::vector<float> result = widen(all);
      for (const std::uint16_t bits : all) {
        const double exact = value_of(bits, format.exponent_bits, format.mantissa_bits);
        if (std::isnan(exact)) {
          ASSERT_TRUE(std::isnan(result[bits])) << bits;
        } else {
          ASSERT_EQ(result[bits], exact) << bits;
        }
        ASSERT_EQ(std::signbit(result[bits]), bits >= 0x8000) << bits;
      }
    }
  }
}

TEST_P(HalfTypes, NarrowToNearestEven) {
  const Format& format = GetParam();
  const std::vector<float> x = boundaries(format.exponent_bits, format.mantissa_bits);
  for (const JitTarget& target : targets()) {
    for (const unsigned lanes : kLanes) {
      const VectorFunction<float, std::uint16_t> narrow(target, lanes, format.narrow);
      const std::vector<std::uint16_t> result = narrow(x);
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (std::isnan(x[i])) {
          ASSERT_TRUE(std::isnan(value_of(result[i], format.exponent_bits, format.mantissa_bits)));
          ASSERT_EQ(result[i] >= 0x8000, std::signbit(x[i]));
        } else {
          ASSERT_EQ(result[i], nearest(x[i], format.exponent_bits, format.mantissa_bits)) << x[i];
        }
      }
    }
  }
}

// A NaN whose payload is in the bits that are dropped must not become infinity, and all NaN have
// the same bits on any target.
TEST_P(HalfTypes, KeepNan) {
  const Format& format = GetParam();
  std::vector<float> nans;
  for (const std::uint32_t bits : {0x7f800001U, 0xff800001U, 0x7fc00000U, 0xffffffffU, 0x7f802000U,
                                   0x7fa12345U, 0xffabcdefU, 0x7f8000ffU}) {
    nans.push_back(std::bit_cast<float>(bits));
  }
  const std::uint16_t quiet_bit = static_cast<std::uint16_t>(1 << (format.mantissa_bits - 1));
  for (const JitTarget& target : targets()) {
    const VectorFunction<float, std::uint16_t> narrow(target, 8, format.narrow);
    const VectorFunction<std::uint16_t, float> widen(target, 8, format.widen);
    const std::vector<std::uint16_t> narrowed = narrow(nans);
    for (std::size_t i = 0; i < nans.size(); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(nans[i]);
      const auto kept =
          static_cast<std::uint16_t>((bits & 0x7fffff) >> (23 - format.mantissa_bits));
      const auto exponent =
          static_cast<std::uint16_t>(((1 << format.exponent_bits) - 1) << format.mantissa_bits);
      EXPECT_EQ(narrowed[i], ((bits >> 16) & 0x8000) | exponent | kept | quiet_bit);
      const auto again = std::bit_cast<std::uint32_t>(widen(narrowed)[i]);
      EXPECT_EQ(again,
                (bits & 0x80000000) | 0x7f800000U |
                    (static_cast<std::uint32_t>(kept | quiet_bit) << (23 - format.mantissa_bits)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, HalfTypes, ::testing::ValuesIn(kFormats),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace opweld::cpu
