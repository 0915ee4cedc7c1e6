#include "support/dim_interval.h"

#include <array>

namespace opweld::dim_detail {
namespace {

constexpr int64_t kMinus = Dim::kMinusInfinity;
constexpr int64_t kPlus = Dim::kPlusInfinity;

bool is_infinite(int64_t value) {
  return value == kMinus || value == kPlus;
}

int64_t add_ends(int64_t a, int64_t b) {
  if (is_infinite(a)) return a;
  if (is_infinite(b)) return b;
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return a > 0 ? kPlus : kMinus;
  return sum;
}

int64_t multiply_ends(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  int64_t product = 0;
  const bool overflows = __builtin_mul_overflow(a, b, &product);
  if (overflows || is_infinite(a) || is_infinite(b)) return (a < 0) == (b < 0) ? kPlus : kMinus;
  return product;
}

int64_t divide_ends(int64_t a, int64_t b) {
  if (a == 0) return 0;
  const bool negative = (a < 0) != (b < 0);
  if (is_infinite(b)) return negative ? -1 : 0;
  if (is_infinite(a)) return negative ? kMinus : kPlus;
  return floor_quotient(a, b);
}

template <typename Operation>
Interval over_corners(Interval a, Interval b, Operation operation) {
  const std::array<int64_t, 4> corners = {operation(a.low, b.low), operation(a.low, b.high),
                                          operation(a.high, b.low), operation(a.high, b.high)};
  const auto [low, high] = std::minmax_element(corners.begin(), corners.end());
  return {*low, *high};
}

}  // namespace

Interval operator+(Interval a, Interval b) {
  return {add_ends(a.low, b.low), add_ends(a.high, b.high)};
}

Interval operator*(Interval a, Interval b) {
  return over_corners(a, b, multiply_ends);
}

Interval power(Interval a, int exponent) {
  Interval result{1, 1};
  for (int i = 0; i < exponent; ++i) result = result * a;
  if (exponent % 2 == 0) result.low = std::max<int64_t>(result.low, 0);
  return result;
}

Interval floor_div(Interval a, Interval b) {
  const Interval negative{b.low, std::min<int64_t>(b.high, -1)};
  const Interval positive{std::max<int64_t>(b.low, 1), b.high};
  const bool has_negative = negative.low <= negative.high;
  const bool has_positive = positive.low <= positive.high;
  if (has_negative && has_positive) {
    return hull(over_corners(a, negative, divide_ends), over_corners(a, positive, divide_ends));
  }
  if (has_negative) return over_corners(a, negative, divide_ends);
  if (has_positive) return over_corners(a, positive, divide_ends);
  return {};
}

}  // namespace opweld::dim_detail
