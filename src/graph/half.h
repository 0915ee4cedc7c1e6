// The two 16-bit float formats, by their bits: f16 (IEEE binary16: 5 exponent bits, 10 of fraction)
// and bf16 (the upper half of an f32: 8 exponent bits, 7 of fraction).
//
// Rounding is to nearest, ties to even, in one step from double, so that no value is rounded twice.
// Overflow gives infinity, tiny values become subnormals or zero, NaN stays a (quiet) NaN.
#pragma once

#include <cstdint>

namespace opweld {

std::uint16_t to_f16_bits(double value);
double from_f16_bits(std::uint16_t bits);

std::uint16_t to_bf16_bits(double value);
double from_bf16_bits(std::uint16_t bits);

}  // namespace opweld
