// Pointwise arithmetic on floats and integers. Integers wrap to their width.
#include <cmath>

#include "ops/families.h"
#include "ops/pointwise.h"

namespace opweld {
namespace {

// ---- integers, by way of 64 bits without sign where the result may leave the range ----

using Unsigned = std::uint64_t;

std::int64_t wrapping_sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
}

std::int64_t wrapping_difference(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<Unsigned>(a) - static_cast<Unsigned>(b));
}

std::int64_t wrapping_product(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<Unsigned>(a) * static_cast<Unsigned>(b));
}

std::int64_t wrapping_negative(std::int64_t a) {
  return wrapping_difference(0, a);
}

// No quotient traps: x / 0 is 0, and the least integer divided by -1 wraps to itself.
std::int64_t truncated_quotient(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? wrapping_negative(a) : a / b;
}

std::int64_t truncated_remainder(std::int64_t a, std::int64_t b) {
  return b == 0 || b == -1 ? 0 : a % b;
}

std::int64_t floored_remainder(std::int64_t a, std::int64_t b) {
  const std::int64_t rest = truncated_remainder(a, b);
  const bool signs_differ = (rest < 0) != (b < 0);
  return rest != 0 && signs_differ ? rest + b : rest;
}

// a^b modulo 2^64; with b < 0 the truncated value of 1 / a^|b|, and 0 where a is 0.
std::int64_t integer_power(std::int64_t a, std::int64_t b) {
  if (b < 0) {
    if (a == 1) return 1;
    if (a == -1) return b % 2 == 0 ? 1 : -1;
    return 0;
  }
  std::int64_t power = 1;
  for (std::int64_t square = a; b != 0; b /= 2) {
    if (b % 2 != 0) power = wrapping_product(power, square);
    square = wrapping_product(square, square);
  }
  return power;
}

// ---- floats ----

// numpy.mod: the remainder of floored division, a zero taking the divisor's sign too.
double floored_remainder(double a, double b) {
  const double rest = std::fmod(a, b);
  if (std::isnan(rest) || b == 0) return rest;
  if (rest == 0) return std::copysign(0.0, b);
  return std::signbit(rest) != std::signbit(b) ? rest + b : rest;
}

// IEEE 754-2019 minimum and maximum: NaN wins, and -0 is less than +0.
double minimum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::nan("");
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

double maximum(double a, double b) {
  return -minimum(-a, -b);
}

// numpy.sign: 0 for both zeros, NaN for NaN.
double sign(double x) {
  if (std::isnan(x)) return x;
  return x > 0 ? 1 : (x < 0 ? -1 : 0);
}

// ---- sizes ----

using DimArguments = std::span<const Dim>;

bool is_size(const Dim& dim) {
  return dim.lower_bound() >= 0;
}

// Truncated division and flooring agree on sizes. A symbolic divisor is taken to be non-zero, as
// everywhere in Dim.
std::optional<Dim> quotient_of_dims(DimArguments x) {
  if (x[0].is_constant() && x[1].is_constant()) {
    return truncated_quotient(*x[0].constant(), *x[1].constant());
  }
  if (!is_size(x[0]) || !is_size(x[1]) || x[1] == Dim(0)) return std::nullopt;
  return floor_div(x[0], x[1]);
}

std::optional<Dim> remainder_of_dims(DimArguments x) {
  if (x[1] == Dim(0)) return Dim(0);
  return mod(x[0], x[1]);
}

std::optional<Dim> truncated_remainder_of_dims(DimArguments x) {
  if (x[0].is_constant() && x[1].is_constant()) {
    return truncated_remainder(*x[0].constant(), *x[1].constant());
  }
  if (!is_size(x[0]) || !is_size(x[1])) return std::nullopt;
  return remainder_of_dims(x);
}

std::optional<Dim> power_of_dims(DimArguments x) {
  constexpr std::int64_t kHighestPower = 4;
  const auto exponent = x[1].constant();
  if (!exponent || *exponent < 0 || *exponent > kHighestPower) return std::nullopt;
  Dim power = 1;
  for (std::int64_t i = 0; i < *exponent; ++i) power *= x[0];
  return power;
}

std::optional<Dim> absolute_dim(DimArguments x) {
  return is_size(x[0]) ? x[0] : max(x[0], -x[0]);
}

std::optional<Dim> sign_of_dim(DimArguments x) {
  if (x[0] == Dim(0)) return Dim(0);
  if (x[0].lower_bound() > 0) return Dim(1);
  if (x[0].upper_bound() < 0) return Dim(-1);
  return std::nullopt;
}

}  // namespace

std::span<const OpDef> arithmetic_ops() {
  static const OpDef defs[] = {
      binary_op<ExprKind::Add>(
          "add", "a + b", kNumbers,
          evaluate_number<[](double a, double b) { return a + b; }, wrapping_sum>,
          contents_of<[](DimArguments x) { return x[0] + x[1]; }>),
      binary_op<ExprKind::Sub>(
          "sub", "a - b", kNumbers,
          evaluate_number<[](double a, double b) { return a - b; }, wrapping_difference>,
          contents_of<[](DimArguments x) { return x[0] - x[1]; }>),
      binary_op<ExprKind::Mul>(
          "mul", "a * b", kNumbers,
          evaluate_number<[](double a, double b) { return a * b; }, wrapping_product>,
          contents_of<[](DimArguments x) { return x[0] * x[1]; }>),
      binary_op<ExprKind::Div>(
          "div", "a / b; of integers truncated, and 0 where b is 0", kNumbers,
          evaluate_number<[](double a, double b) { return a / b; }, truncated_quotient>,
          contents_of<quotient_of_dims>),
      binary_op<ExprKind::Mod>(
          "mod", "a - b * floor(a / b), with the sign of b (numpy.mod); of integers 0 where b is 0",
          kNumbers,
          evaluate_number<[](double a, double b) { return floored_remainder(a, b); },
                          [](std::int64_t a, std::int64_t b) { return floored_remainder(a, b); }>,
          contents_of<remainder_of_dims>),
      binary_op<ExprKind::Fmod>(
          "fmod", "a - b * trunc(a / b), with the sign of a (C fmod); of integers 0 where b is 0",
          kNumbers,
          evaluate_number<[](double a, double b) { return std::fmod(a, b); }, truncated_remainder>,
          contents_of<truncated_remainder_of_dims>),
      binary_op<ExprKind::Pow>(
          "pow", "a to the power b; of integers modulo 2^width, truncated where b < 0", kNumbers,
          evaluate_number<[](double a, double b) { return std::pow(a, b); }, integer_power>,
          contents_of<power_of_dims>),
      binary_op<ExprKind::Min>(
          "min", "the lesser of a and b; NaN if either is NaN", kNumbers,
          evaluate_number<minimum, [](std::int64_t a, std::int64_t b) { return a < b ? a : b; }>,
          contents_of<[](DimArguments x) { return min(x[0], x[1]); }>),
      binary_op<ExprKind::Max>(
          "max", "the greater of a and b; NaN if either is NaN", kNumbers,
          evaluate_number<maximum, [](std::int64_t a, std::int64_t b) { return a < b ? b : a; }>,
          contents_of<[](DimArguments x) { return max(x[0], x[1]); }>),
      unary_op<ExprKind::Neg>("neg", "-x", kNumbers,
                              evaluate_number<[](double x) { return -x; }, wrapping_negative>,
                              contents_of<[](DimArguments x) { return -x[0]; }>),
      unary_op<ExprKind::Abs>(
          "abs", "the magnitude of x; the least integer wraps to itself", kNumbers,
          evaluate_number<[](double x) { return std::fabs(x); },
                          [](std::int64_t x) { return x < 0 ? wrapping_negative(x) : x; }>,
          contents_of<absolute_dim>),
      unary_op<ExprKind::Sign>(
          "sign", "-1, 0 or 1 as x is below, equal to or above 0; NaN for NaN", kNumbers,
          evaluate_number<sign,
                          [](std::int64_t x) { return std::int64_t{0 < x} - std::int64_t{x < 0}; }>,
          contents_of<sign_of_dim>),
      unary_op<ExprKind::Reciprocal>("reciprocal", "1 / x", kFloats,
                                     evaluate_real<[](double x) { return 1 / x; }>),
  };
  return defs;
}

}  // namespace opweld
