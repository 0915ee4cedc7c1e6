// Trigonometric and hyperbolic functions beyond sin, cos and tanh.
#include <cmath>

#include "ops/families.h"
#include "ops/formula_op.h"
#include "ops/scalar_functions.h"

namespace opweld {

std::span<const OpDef> trigonometry_ops() {
  static const OpDef defs[] = {
      formula_op<[](Term x) { return tan(x); }, [](double x) { return std::tan(x); }>(
          "tan", "the tangent of x radians"),
      formula_op<[](Term x) { return asin(x); }, [](double x) { return std::asin(x); }>(
          "asin", "the arc sine; NaN beyond [-1, 1]"),
      formula_op<[](Term x) { return acos(x); }, [](double x) { return std::acos(x); }>(
          "acos", "the arc cosine; NaN beyond [-1, 1]"),
      formula_op<[](Term x) { return atan(x); }, [](double x) { return std::atan(x); }>(
          "atan", "the arc tangent"),
      formula_op<[](Term x) { return sinh(x); }, [](double x) { return std::sinh(x); }>(
          "sinh", "the hyperbolic sine"),
      formula_op<[](Term x) { return cosh(x); }, [](double x) { return std::cosh(x); }>(
          "cosh", "the hyperbolic cosine"),
      formula_op<[](Term x) { return asinh(x); }, [](double x) { return std::asinh(x); }>(
          "asinh", "the inverse hyperbolic sine"),
      formula_op<[](Term x) { return acosh(x); }, [](double x) { return std::acosh(x); }>(
          "acosh", "the inverse hyperbolic cosine; NaN below 1"),
      formula_op<[](Term x) { return atanh(x); }, [](double x) { return std::atanh(x); }>(
          "atanh", "the inverse hyperbolic tangent; NaN beyond [-1, 1]"),
  };
  return defs;
}

}  // namespace opweld
