// cast: conversion between dtypes.
//
// A value passes through the compute type of the result: f64 and integers reach f16 and bf16 by way
// of f32, floats reach i16, i8 and u8 by way of i32. Float to integer truncates toward zero and
// saturates to the compute type (NaN gives 0), which then wraps to the dtype; docs/numerics.md
// states the same for kernels.
#include "graph/convert.h"
#include "ops/families.h"
#include "ops/pointwise.h"

namespace opweld {
namespace {

DType target_dtype(const OpContext& context) {
  return context.attributes.dtype("to");
}

Expected<std::vector<TensorType>> infer_cast(const OpContext& context) {
  return std::vector<TensorType>{
      {target_dtype(context), context.type(0).shape, context.type(0).format}};
}

// Symbolic sizes are taken to fit into i64 and i32.
std::optional<std::vector<Dim>> cast_contents(const OpContext& context) {
  const DType to = target_dtype(context);
  if (is_float(to)) return std::nullopt;
  const bool wide = to == DType::I64 || to == DType::I32;
  return pointwise_contents(context, [&](std::span<const Dim> x) -> std::optional<Dim> {
    if (x[0].is_constant()) return Dim(wrap_integer(*x[0].constant(), to));
    return wide ? std::optional(x[0]) : std::nullopt;
  });
}

double to_compute_type(double value, DType result) {
  return result == DType::F64 ? value : static_cast<double>(static_cast<float>(value));
}

Status evaluate_cast(const EvalContext& context) {
  const Tensor& x = *context.operands[0];
  Tensor& result = context.results[0];
  const DType to = result.dtype();
  for (std::int64_t i = 0; i < result.num_elements(); ++i) {
    if (is_float(x.dtype())) {
      const double value = x.get_double(i);
      result.set_double(i, is_float(to) ? to_compute_type(value, to) : value);
    } else if (is_float(to) && to != DType::F64) {
      // Straight to float: by way of double an i64 would be rounded twice.
      result.set_double(i, static_cast<float>(x.get_int(i)));
    } else {
      result.set_int(i, x.get_int(i));
    }
  }
  return {};
}

Expr scalar_cast(const OpContext& context, ExprPool& pool, std::span<const Expr> arguments) {
  return pool.convert(arguments[0], compute_dtype(target_dtype(context)));
}

}  // namespace

std::span<const OpDef> cast_ops() {
  static const OpDef defs[] = {
      {
          .name = "cast",
          .summary = "x converted to the dtype `to`; see the head of ops/cast.cpp",
          .trait = FusionTrait::Pointwise,
          .operands = {{"x"}},
          .attributes = {{"to", AttributeKind::Type}},
          .infer = infer_cast,
          .contents = cast_contents,
          .evaluate = evaluate_cast,
          .scalar = scalar_cast,
      },
  };
  return defs;
}

}  // namespace opweld
