#include "graph/half.h"

#include <bit>

namespace opweld {
namespace {

constexpr int kDoubleFraction = 52;
constexpr int kDoubleBias = 1023;
constexpr int kDoubleExponentMask = 0x7ff;
constexpr std::uint64_t kDoubleFractionMask = (std::uint64_t{1} << kDoubleFraction) - 1;

// A binary format of 16 bits: sign, exponent, fraction.
struct Layout {
  int exponent_bits;
  int fraction_bits;

  [[nodiscard]] constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  [[nodiscard]] constexpr int exponent_mask() const { return (1 << exponent_bits) - 1; }
  [[nodiscard]] constexpr std::uint16_t infinity() const {
    return static_cast<std::uint16_t>(exponent_mask() << fraction_bits);
  }
};

constexpr Layout kF16{5, 10};
constexpr Layout kBF16{8, 7};

// `value` / 2^shift, rounded to nearest even; 0 < shift < 64.
std::uint64_t shift_right_rounded(std::uint64_t value, int shift) {
  const std::uint64_t quotient = value >> shift;
  const std::uint64_t remainder = value & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  const bool up = remainder > half || (remainder == half && (quotient & 1) != 0);
  return quotient + (up ? 1 : 0);
}

std::uint16_t encode(double value, Layout layout) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 63) << 15);
  const int exponent = static_cast<int>((bits >> kDoubleFraction) & kDoubleExponentMask);
  const std::uint64_t fraction = bits & kDoubleFractionMask;
  const int dropped = kDoubleFraction - layout.fraction_bits;

  if (exponent == kDoubleExponentMask) {
    if (fraction == 0) return sign | layout.infinity();
    const int quiet = 1 << (layout.fraction_bits - 1);
    const int payload = static_cast<int>(fraction >> dropped);
    return static_cast<std::uint16_t>(sign | layout.infinity() | quiet | payload);
  }
  const int target = exponent - kDoubleBias + layout.bias();
  if (target >= layout.exponent_mask()) return sign | layout.infinity();

  // A normal result keeps its exponent field, a subnormal one shifts the fraction (with its hidden
  // bit) further. A carry out of the fraction runs into the exponent, which is what it should do.
  const std::uint64_t significand = fraction | (std::uint64_t{1} << kDoubleFraction);
  if (target >= 1) {
    const std::uint64_t rounded = shift_right_rounded(fraction, dropped);
    return static_cast<std::uint16_t>(
        sign | ((static_cast<std::uint64_t>(target) << layout.fraction_bits) + rounded));
  }
  const int shift = dropped + 1 - target;
  if (shift > kDoubleFraction + 1) return sign;  // below half of the smallest subnormal
  return static_cast<std::uint16_t>(sign | shift_right_rounded(significand, shift));
}

double decode(std::uint16_t bits, Layout layout) {
  const std::uint64_t sign = static_cast<std::uint64_t>(bits >> 15) << 63;
  const int exponent = (bits >> layout.fraction_bits) & layout.exponent_mask();
  const std::uint64_t fraction = bits & ((1U << layout.fraction_bits) - 1U);
  const int widened = kDoubleFraction - layout.fraction_bits;

  if (exponent == 0) {  // zero or subnormal: fraction * 2^(1 - bias - fraction_bits), exact
    const int scale = 1 - layout.bias() - layout.fraction_bits;
    const double unit =
        std::bit_cast<double>(static_cast<std::uint64_t>(scale + kDoubleBias) << kDoubleFraction);
    const double magnitude = static_cast<double>(fraction) * unit;
    return sign != 0 ? -magnitude : magnitude;
  }
  const int wide_exponent = exponent == layout.exponent_mask()
                                ? kDoubleExponentMask
                                : exponent - layout.bias() + kDoubleBias;
  return std::bit_cast<double>(sign |
                               (static_cast<std::uint64_t>(wide_exponent) << kDoubleFraction) |
                               (fraction << widened));
}

}  // namespace

std::uint16_t to_f16_bits(double value) {
  return encode(value, kF16);
}
double from_f16_bits(std::uint16_t bits) {
  return decode(bits, kF16);
}

std::uint16_t to_bf16_bits(double value) {
  return encode(value, kBF16);
}
double from_bf16_bits(std::uint16_t bits) {
  return decode(bits, kBF16);
}

}  // namespace opweld
