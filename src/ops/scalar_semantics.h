// What each kind of scalar expression does to values: the meaning that backends must reproduce.
#pragma once

#include <span>

#include "ops/scalar_expr.h"

namespace opweld {

// Whether `kind`, which is not Convert or Store, may be applied to arguments of a compute type; for
// Select, to what it chooses between.
bool admits(ExprKind kind, DType type);

// The value of a Constant.
ScalarValue value_of_constant(const ExprNode& node);

// The value of `node` when its arguments have these values and the first of them the type
// `argument_type`. For nodes with arguments only.
//
// Integers wrap to the width of their type. f32 is computed in float where IEEE 754 defines the
// rounding; the elementary functions are computed in double and rounded once, so that they are
// correct to the last bit nearly always.
ScalarValue apply_scalar(const ExprNode& node, DType argument_type,
                         std::span<const ScalarValue> arguments);

}  // namespace opweld
