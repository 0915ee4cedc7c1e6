#include "ops/scalar_semantics.h"

#include <cassert>
#include <cmath>
#include <limits>

#include "graph/convert.h"

namespace opweld {
namespace {

// ---- floats: T is float or double, the type that is computed in ----

template <typename T>
T floored_mod(T a, T b) {  // as numpy.mod
  T rest = std::fmod(a, b);
  if (b == 0 || std::isnan(rest)) return rest;
  if (rest == 0) return std::copysign(T{0}, b);
  return (b < 0) != (rest < 0) ? rest + b : rest;
}

template <typename T>
T minimum(T a, T b) {  // IEEE 754 minimum: NaN wins, -0 is below +0
  if (std::isnan(a) || std::isnan(b)) return a + b;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

template <typename T>
T maximum(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

template <typename T>
T sign(T a) {  // as numpy.sign: 0 for either zero, NaN for NaN
  if (std::isnan(a)) return a;
  return static_cast<T>((a > 0) - (a < 0));
}

double sigmoid(double a) {  // without overflow on either side
  if (a >= 0) return 1 / (1 + std::exp(-a));
  const double e = std::exp(a);
  return e / (1 + e);
}

template <typename T>
T float_binary(ExprKind kind, T a, T b) {
  switch (kind) {
    case ExprKind::Add:
      return a + b;
    case ExprKind::Sub:
      return a - b;
    case ExprKind::Mul:
      return a * b;
    case ExprKind::Div:
      return a / b;
    case ExprKind::Mod:
      return floored_mod(a, b);
    case ExprKind::Fmod:
      return std::fmod(a, b);
    case ExprKind::Min:
      return minimum(a, b);
    case ExprKind::Max:
      return maximum(a, b);
    case ExprKind::Pow:
      return static_cast<T>(std::pow(static_cast<double>(a), static_cast<double>(b)));
    default:
      assert(false && "not a binary operation on floats");
      return a;
  }
}

double elementary(ExprKind kind, double a) {
  switch (kind) {
    case ExprKind::Exp:
      return std::exp(a);
    case ExprKind::Log:
      return std::log(a);
    case ExprKind::Tanh:
      return std::tanh(a);
    case ExprKind::Erf:
      return std::erf(a);
    case ExprKind::Sigmoid:
      return sigmoid(a);
    case ExprKind::Sin:
      return std::sin(a);
    case ExprKind::Cos:
      return std::cos(a);
    default:
      assert(false && "not an elementary function");
      return a;
  }
}

template <typename T>
T float_unary(ExprKind kind, T a) {
  switch (kind) {
    case ExprKind::Neg:
      return -a;
    case ExprKind::Abs:
      return std::fabs(a);
    case ExprKind::Sign:
      return sign(a);
    case ExprKind::Sqrt:
      return std::sqrt(a);
    case ExprKind::Rsqrt:
      return T{1} / std::sqrt(a);
    case ExprKind::Reciprocal:
      return T{1} / a;
    case ExprKind::Floor:
      return std::floor(a);
    case ExprKind::Ceil:
      return std::ceil(a);
    case ExprKind::Round:
      return std::nearbyint(a);  // the rounding mode is never changed from nearest-even
    default:
      return static_cast<T>(elementary(kind, static_cast<double>(a)));
  }
}

template <typename T>
double apply_float(ExprKind kind, std::span<const ScalarValue> arguments) {
  const auto argument = [&arguments](std::size_t i) { return static_cast<T>(arguments[i].real); };
  if (kind == ExprKind::Fma) return std::fma(argument(0), argument(1), argument(2));
  if (arity(kind) == 2) return float_binary(kind, argument(0), argument(1));
  return float_unary(kind, argument(0));
}

// ---- integers: computed in 64 bits without sign, wrapped by the caller ----

using Unsigned = std::uint64_t;

std::int64_t divide(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return static_cast<std::int64_t>(0 - static_cast<Unsigned>(a));
  return a / b;
}

std::int64_t truncated_mod(std::int64_t a, std::int64_t b) {
  return b == 0 || b == -1 ? 0 : a % b;
}

std::int64_t floored_mod(std::int64_t a, std::int64_t b) {
  const std::int64_t rest = truncated_mod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// a^b modulo 2^64; a negative exponent gives the truncated reciprocal, and 0 for a = 0.
std::int64_t power(std::int64_t a, std::int64_t b) {
  if (b < 0) {
    if (a == 1) return 1;
    if (a == -1) return b % 2 == 0 ? 1 : -1;
    return 0;
  }
  Unsigned result = 1;
  auto base = static_cast<Unsigned>(a);
  for (auto exponent = static_cast<Unsigned>(b); exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result *= base;
    base *= base;
  }
  return static_cast<std::int64_t>(result);
}

std::int64_t shift(ExprKind kind, DType type, std::int64_t a, std::int64_t count) {
  const int width = 8 * byte_size(type);
  if (count < 0 || count >= width) return 0;
  if (kind == ExprKind::ShiftRight) return a >> count;
  return static_cast<std::int64_t>(static_cast<Unsigned>(a) << count);
}

std::int64_t integer_binary(ExprKind kind, DType type, std::int64_t a, std::int64_t b) {
  const auto x = static_cast<Unsigned>(a);
  const auto y = static_cast<Unsigned>(b);
  switch (kind) {
    case ExprKind::Add:
      return static_cast<std::int64_t>(x + y);
    case ExprKind::Sub:
      return static_cast<std::int64_t>(x - y);
    case ExprKind::Mul:
      return static_cast<std::int64_t>(x * y);
    case ExprKind::Div:
      return divide(a, b);
    case ExprKind::Mod:
      return floored_mod(a, b);
    case ExprKind::Fmod:
      return truncated_mod(a, b);
    case ExprKind::Min:
      return a < b ? a : b;
    case ExprKind::Max:
      return a > b ? a : b;
    case ExprKind::Pow:
      return power(a, b);
    case ExprKind::And:
      return a & b;
    case ExprKind::Or:
      return a | b;
    case ExprKind::Xor:
      return a ^ b;
    default:
      return shift(kind, type, a, b);
  }
}

std::int64_t integer_unary(ExprKind kind, DType type, std::int64_t a) {
  switch (kind) {
    case ExprKind::Neg:
      return static_cast<std::int64_t>(0 - static_cast<Unsigned>(a));
    case ExprKind::Abs:
      return a < 0 ? static_cast<std::int64_t>(0 - static_cast<Unsigned>(a)) : a;
    case ExprKind::Sign:
      return (a > 0) - (a < 0);
    case ExprKind::Not:
      return type == DType::Bool ? static_cast<std::int64_t>(a == 0) : ~a;
    default:
      assert(false && "not a unary operation on integers");
      return a;
  }
}

// ---- what gives another type than it takes ----

template <typename T>
bool compare(ExprKind kind, T a, T b) {
  switch (kind) {
    case ExprKind::Eq:
      return a == b;
    case ExprKind::Ne:
      return a != b;
    case ExprKind::Lt:
      return a < b;
    default:
      return a <= b;
  }
}

bool is_comparison(ExprKind kind) {
  return kind == ExprKind::Eq || kind == ExprKind::Ne || kind == ExprKind::Lt ||
         kind == ExprKind::Le;
}

ScalarValue convert_value(ScalarValue value, DType from, DType to) {
  if (is_float(from)) {
    if (is_float(to)) return {round_to_float(value.real, to), 0};
    return {0, float_to_integer(value.real, to)};
  }
  // To f32 from the integer itself: by way of double it would be rounded twice.
  if (to == DType::F32) return {static_cast<float>(value.integer), 0};
  if (to == DType::F64) return {static_cast<double>(value.integer), 0};
  return {0, wrap_integer(value.integer, to)};
}

}  // namespace

ScalarValue value_of_constant(const ExprNode& node) {
  if (is_float(node.type)) return {node.number, 0};
  if (node.type == DType::Bool) return {0, node.number != 0 ? 1 : 0};
  return {0, node.integer};
}

ScalarValue apply_scalar(const ExprNode& node, DType argument_type,
                         std::span<const ScalarValue> arguments) {
  const ExprKind kind = node.kind;
  const bool floats = is_float(argument_type);
  const ScalarValue& first = arguments[0];
  if (kind == ExprKind::Select) return first.integer != 0 ? arguments[1] : arguments[2];
  if (kind == ExprKind::Convert) return convert_value(first, argument_type, node.type);
  if (kind == ExprKind::Store) {
    if (floats) return {round_to_float(first.real, node.storage), 0};
    return {0, wrap_integer(first.integer, node.storage)};
  }
  if (kind == ExprKind::IsNan) return {0, std::isnan(first.real) ? 1 : 0};
  if (kind == ExprKind::IsInf) return {0, std::isinf(first.real) ? 1 : 0};
  if (is_comparison(kind)) {
    const bool holds = floats ? compare(kind, first.real, arguments[1].real)
                              : compare(kind, first.integer, arguments[1].integer);
    return {0, holds ? 1 : 0};
  }
  if (argument_type == DType::F64) return {apply_float<double>(kind, arguments), 0};
  if (argument_type == DType::F32) return {apply_float<float>(kind, arguments), 0};
  const std::int64_t result =
      arity(kind) == 2 ? integer_binary(kind, argument_type, first.integer, arguments[1].integer)
                       : integer_unary(kind, argument_type, first.integer);
  return {0, wrap_integer(result, argument_type)};
}

}  // namespace opweld
