// Intervals of integers with infinite ends, for the bounds of a Dim.
#pragma once

#include <algorithm>
#include <cstdint>

#include "support/dim.h"

namespace opweld::dim_detail {

// All integers from low to high. Dim::kMinusInfinity and Dim::kPlusInfinity stand for infinity and
// absorb whatever is added to them.
struct Interval {
  int64_t low = Dim::kMinusInfinity;
  int64_t high = Dim::kPlusInfinity;

  // Whether exactly one (finite) integer is left.
  [[nodiscard]] bool is_point() const {
    return low == high && low != Dim::kMinusInfinity && low != Dim::kPlusInfinity;
  }
};

inline Interval intersect(Interval a, Interval b) {
  return {std::max(a.low, b.low), std::min(a.high, b.high)};
}
inline Interval hull(Interval a, Interval b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

Interval operator+(Interval a, Interval b);
Interval operator*(Interval a, Interval b);
Interval power(Interval a, int exponent);
// All floor(x / y) with y != 0; everything if y can only be 0.
Interval floor_div(Interval a, Interval b);

// floor(a / b) of integers; b must not be 0 (and INT64_MIN / -1 not be asked for).
constexpr int64_t floor_quotient(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

}  // namespace opweld::dim_detail
