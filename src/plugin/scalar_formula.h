// The expression of a pointwise custom operator, as an expression of the scalar language.
#pragma once

#include <span>
#include <string>

#include "graph/attributes.h"
#include "ops/scalar_expr.h"
#include "plugin/formula.h"
#include "support/expected.h"

namespace opweld {

// What the names of a formula stand for.
struct ScalarScope {
  std::span<const std::string> operands;  // their names
  std::span<const Expr> arguments;        // an element of each; kNoExpr where absent
  const Attributes& attributes;           // all of them, with defaults
};

// All floats of the arguments are f64 in wide arithmetic, and conversions between floats do
// nothing: that is how the reference computes.
enum class Arithmetic : std::uint8_t { Compute, Wide };

// The result, of compute type `type`. Whatever is wrong with types or names is an error that tells
// the line and the column; nothing is asserted of the formula.
Expected<Expr> build_scalar(const FormulaText& formula, const ScalarScope& scope, DType type,
                            Arithmetic arithmetic, ExprPool& pool);

}  // namespace opweld
