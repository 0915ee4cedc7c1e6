// Elementary functions of one float, and tests of its kind.
#include <cmath>

#include "ops/families.h"
#include "ops/pointwise.h"

namespace opweld {
namespace {

// Neither side overflows.
double sigmoid(double x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const double e = std::exp(x);
  return e / (1 + e);
}

template <ExprKind kind, auto function>
OpDef function_op(std::string_view name, std::string_view summary) {
  return unary_op<kind>(name, summary, kFloats, evaluate_real<function>);
}

template <ExprKind kind, auto function>
OpDef test_op(std::string_view name, std::string_view summary) {
  OpDef def = function_op<kind, function>(name, summary);
  def.infer = infer_predicate;
  return def;
}

}  // namespace

std::span<const OpDef> math_ops() {
  static const OpDef defs[] = {
      function_op<ExprKind::Exp, [](double x) { return std::exp(x); }>("exp", "e to the power x"),
      function_op<ExprKind::Log, [](double x) { return std::log(x); }>(
          "log", "the natural logarithm; NaN below 0, -inf at 0"),
      function_op<ExprKind::Sqrt, [](double x) { return std::sqrt(x); }>(
          "sqrt", "the square root; NaN below 0"),
      function_op<ExprKind::Rsqrt, [](double x) { return 1 / std::sqrt(x); }>("rsqrt",
                                                                              "1 / sqrt(x)"),
      function_op<ExprKind::Tanh, [](double x) { return std::tanh(x); }>("tanh",
                                                                         "the hyperbolic tangent"),
      function_op<ExprKind::Erf, [](double x) { return std::erf(x); }>(
          "erf", "the error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x"),
      function_op<ExprKind::Sigmoid, sigmoid>("sigmoid", "1 / (1 + exp(-x))"),
      function_op<ExprKind::Sin, [](double x) { return std::sin(x); }>("sin",
                                                                       "the sine of x radians"),
      function_op<ExprKind::Cos, [](double x) { return std::cos(x); }>("cos",
                                                                       "the cosine of x radians"),
      function_op<ExprKind::Floor, [](double x) { return std::floor(x); }>(
          "floor", "the greatest integral value not above x"),
      function_op<ExprKind::Ceil, [](double x) { return std::ceil(x); }>(
          "ceil", "the least integral value not below x"),
      function_op<ExprKind::Round, [](double x) { return std::nearbyint(x); }>(
          "round", "the nearest integral value, halves to the even one"),
      test_op<ExprKind::IsNan, [](double x) { return std::isnan(x); }>("is_nan",
                                                                       "whether x is NaN"),
      test_op<ExprKind::IsInf, [](double x) { return std::isinf(x); }>(
          "is_inf", "whether x is an infinity of either sign"),
  };
  return defs;
}

}  // namespace opweld
