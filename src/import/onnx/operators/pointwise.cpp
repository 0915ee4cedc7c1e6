// Arithmetic, comparison, logic, casts, elementary functions.
#include "import/onnx/operators/table.h"

namespace opweld {
namespace {

Expected<Values> unary(NodeContext& c) {
  return one(c.builder().op(c.target(), {c.operand(0)}));
}

Expected<Values> binary(NodeContext& c) {
  return one(c.builder().op(c.target(), {c.operand(0), c.operand(1)}));
}

// Of any number of operands, from the left.
Expected<Values> chain(NodeContext& c) {
  Value* result = c.operand(0);
  for (int i = 1; i < c.num_operands(); ++i) {
    if (!c.has(i)) return fail("operand {} is missing", i);
    result = c.builder().binary(c.target(), result, c.operand(i));
  }
  return one(result);
}

Expected<Values> mean(NodeContext& c) {
  OPWELD_TRY(const Values sum, chain(c));
  OPWELD_CHECK(c.status());
  Value* count = c.builder().scalar(c.num_operands(), sum[0]->dtype());
  return one(c.builder().binary("div", sum[0], count));
}

// Base and exponent may differ in dtype; the result has that of the base. Powers of integers by
// real numbers are computed as reals.
Expected<Values> power(NodeContext& c) {
  Builder& b = c.builder();
  Value* base = c.operand(0);
  Value* exponent = c.operand(1);
  const DType dtype = base->dtype();
  if (is_float(exponent->dtype()) && !is_float(dtype)) {
    const DType wide = exponent->dtype() == DType::F64 ? DType::F64 : DType::F32;
    return one(b.cast(b.binary("pow", b.cast(base, wide), b.cast(exponent, wide)), dtype));
  }
  return one(b.binary("pow", base, b.cast(exponent, dtype)));
}

Expected<Values> modulo(NodeContext& c) {
  const bool truncated = c.integer("fmod", 0) != 0;
  return one(c.builder().binary(truncated ? "fmod" : "mod", c.operand(0), c.operand(1)));
}

// Shifting by the width or more, or by a negative count, leaves copies of the sign (numpy): the
// same as a shift by the width less one.
Value* bounded_counts(NodeContext& c) {
  Builder& b = c.builder();
  Value* counts = c.operand(1);
  const DType dtype = c.operand(0)->dtype();
  if (dtype == DType::U8 || counts->dtype() != dtype) return counts;
  Value* last = b.scalar(8 * byte_size(dtype) - 1, dtype);
  Value* is_negative = b.binary("lt", counts, b.scalar(0, dtype));
  return b.op("select", {is_negative, last, b.binary("min", counts, last)});
}

Expected<Values> bit_shift(NodeContext& c) {
  const std::string direction = c.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    return fail("direction '{}' is neither LEFT nor RIGHT", direction);
  }
  if (direction == "LEFT") return one(c.builder().binary("shift_left", c.operand(0), c.operand(1)));
  return one(c.builder().binary("shift_right", c.operand(0), bounded_counts(c)));
}

// ---- choosing ----

// A bound may be a scalar or a list of one; the result has the shape of x.
Value* scalar_bound(NodeContext& c, Value* bound) {
  return bound != nullptr && bound->rank() != 0 ? c.builder().reshape(bound, {}) : bound;
}

// Bounds are attributes before opset 11.
Expected<Values> clip(NodeContext& c) {
  Builder& b = c.builder();
  const auto bound = [&](int index, std::string_view name) -> Value* {
    if (c.opset() >= 11) return scalar_bound(c, c.operand(index));
    return c.has_attribute(name) ? b.scalar(c.real(name, 0), c.operand(0)->dtype()) : nullptr;
  };
  return one(b.op("clip", {c.operand(0), bound(1, "min"), bound(2, "max")}));
}

Expected<Values> where(NodeContext& c) {
  return one(c.builder().op("select", {c.operand(0), c.operand(1), c.operand(2)}));
}

Expected<Values> is_infinite(NodeContext& c) {
  Builder& b = c.builder();
  Value* x = c.operand(0);
  const bool negative = c.integer("detect_negative", 1) != 0;
  const bool positive = c.integer("detect_positive", 1) != 0;
  Value* infinite = b.op("is_inf", {x});
  if (negative && positive) return one(infinite);
  Value* zero = b.scalar(0, x->dtype());
  // Neither asked for: what is both above and below 0 is nothing.
  if (!positive) infinite = b.binary("and", infinite, b.binary("lt", x, zero));
  if (!negative) infinite = b.binary("and", infinite, b.binary("gt", x, zero));
  return one(infinite);
}

// ---- conversion ----

Expected<Values> identity(NodeContext& c) {
  return one(c.operand(0));
}

Expected<Values> cast(NodeContext& c) {
  OPWELD_TRY(const DType dtype, c.dtype_attribute("to", std::nullopt));
  return one(c.builder().cast(c.operand(0), dtype));
}

Expected<Values> bit_cast(NodeContext& c) {
  OPWELD_TRY(const DType dtype, c.dtype_attribute("to", std::nullopt));
  return one(c.builder().op("bitcast", {c.operand(0)}, {{"to", dtype}}));
}

Expected<Values> cast_like(NodeContext& c) {
  return one(c.builder().cast(c.operand(0), c.operand(1)->dtype()));
}

// Inference keeps every element; the mask says so.
Expected<Values> dropout(NodeContext& c) {
  if (const auto training = c.constant(2); c.has(2) && c.opset() >= 12) {
    if (!training) return fail("whether it is training must be known at import");
    if (training->num_elements() != 1 || training->get_int(0) != 0) {
      return fail("dropout while training is not supported; export the model for inference");
    }
  }
  Builder& b = c.builder();
  Value* mask = nullptr;
  if (c.wants(1)) {
    const DType dtype = c.opset() >= 10 ? DType::Bool : c.operand(0)->dtype();
    mask = b.expand(b.scalar(1, dtype), c.operand(0)->shape());
  }
  return Values{c.operand(0), mask};
}

constexpr OperatorRule kRules[] = {
    {"Abs", unary, "abs"},
    {"Acos", unary, "acos"},
    {"Acosh", unary, "acosh"},
    {"Add", binary, "add", 2, 2},
    {"And", binary, "and", 2, 2},
    {"Asin", unary, "asin"},
    {"Asinh", unary, "asinh"},
    {"Atan", unary, "atan"},
    {"Atanh", unary, "atanh"},
    {"BitCast", bit_cast},
    {"BitShift", bit_shift, "", 2, 2},
    {"BitwiseAnd", binary, "bit_and", 2, 2},
    {"BitwiseNot", unary, "bit_not"},
    {"BitwiseOr", binary, "bit_or", 2, 2},
    {"BitwiseXor", binary, "bit_xor", 2, 2},
    {"Cast", cast},
    {"CastLike", cast_like, "", 2, 2},
    {"Ceil", unary, "ceil"},
    {"Clip", clip, "", 1, 3},
    {"Cos", unary, "cos"},
    {"Cosh", unary, "cosh"},
    {"Div", binary, "div", 2, 2},
    {"Dropout", dropout, "", 1, 3},
    {"Equal", binary, "eq", 2, 2},
    {"Erf", unary, "erf"},
    {"Exp", unary, "exp"},
    {"Floor", unary, "floor"},
    {"Greater", binary, "gt", 2, 2},
    {"GreaterOrEqual", binary, "ge", 2, 2},
    {"Identity", identity},
    {"IsInf", is_infinite},
    {"IsNaN", unary, "is_nan"},
    {"Less", binary, "lt", 2, 2},
    {"LessOrEqual", binary, "le", 2, 2},
    {"Log", unary, "log"},
    {"Max", chain, "max", 1, kAny},
    {"Mean", mean, "add", 1, kAny},
    {"Min", chain, "min", 1, kAny},
    {"Mod", modulo, "", 2, 2},
    {"Mul", binary, "mul", 2, 2},
    {"Neg", unary, "neg"},
    {"Not", unary, "not"},
    {"Or", binary, "or", 2, 2},
    {"Pow", power, "", 2, 2},
    {"Reciprocal", unary, "reciprocal"},
    {"Round", unary, "round"},
    {"Sigmoid", unary, "sigmoid"},
    {"Sign", unary, "sign"},
    {"Sin", unary, "sin"},
    {"Sinh", unary, "sinh"},
    {"Sqrt", unary, "sqrt"},
    {"Sub", binary, "sub", 2, 2},
    {"Sum", chain, "add", 1, kAny},
    {"Tan", unary, "tan"},
    {"Tanh", unary, "tanh"},
    {"Where", where, "", 3, 3},
    {"Xor", binary, "xor", 2, 2},
};

}  // namespace

std::span<const OperatorRule> pointwise_operators() {
  return kRules;
}

}  // namespace opweld
