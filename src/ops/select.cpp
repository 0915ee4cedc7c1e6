// Choosing among operands: select and clip.
#include <cmath>

#include "ops/families.h"
#include "ops/pointwise.h"

namespace opweld {
namespace {

// ---- select ----

Expected<std::vector<TensorType>> infer_select(const OpContext& context) {
  OPWELD_TRY(auto types, infer_predicate(context));
  types[0].dtype = context.type(1).dtype;
  return types;
}

std::optional<Dim> chosen_dim(std::span<const Dim> x) {
  if (x[1] == x[2]) return x[1];
  const auto condition = x[0].constant();
  if (!condition) return std::nullopt;
  return *condition != 0 ? x[1] : x[2];
}

std::optional<std::vector<Dim>> select_contents(const OpContext& context) {
  return pointwise_contents(context, chosen_dim);
}

Status evaluate_select(const EvalContext& context) {
  const Tensor& condition = *context.operands[0];
  Tensor& result = context.results[0];
  for_each_broadcast(context, [&](std::int64_t at, std::span<const std::int64_t> from) {
    const std::size_t chosen = condition.get_int(from[0]) != 0 ? 1 : 2;
    const Tensor& source = *context.operands[chosen];
    if (is_float(source.dtype())) {
      result.set_double(at, source.get_double(from[chosen]));
    } else {
      result.set_int(at, source.get_int(from[chosen]));
    }
  });
  return {};
}

// ---- clip ----

template <typename T>
T raised(T x, T low) {
  return x < low ? low : x;
}

template <typename T>
T lowered(T x, T high) {
  return x > high ? high : x;
}

// A NaN among x and the bounds is the result.
double raised(double x, double low) {
  return std::isnan(low) ? low : raised<double>(x, low);
}

double lowered(double x, double high) {
  return std::isnan(high) ? high : lowered<double>(x, high);
}

template <typename Element, Element (Tensor::*get)(std::int64_t) const>
void clip_elements(const EvalContext& context) {
  const Tensor* low = context.operands[1];
  const Tensor* high = context.operands[2];
  for_each_broadcast(context, [&](std::int64_t at, std::span<const std::int64_t> from) {
    Element x = (context.operands[0]->*get)(from[0]);
    if (low != nullptr) x = raised(x, (low->*get)(from[1]));
    if (high != nullptr) x = lowered(x, (high->*get)(from[2]));
    put_element(context.results[0], at, x);
  });
}

Status evaluate_clip(const EvalContext& context) {
  if (is_float(context.operands[0]->dtype())) {
    clip_elements<double, &Tensor::get_double>(context);
  } else {
    clip_elements<std::int64_t, &Tensor::get_int>(context);
  }
  return {};
}

Expr scalar_clip(const OpContext& context, ExprPool& pool, std::span<const Expr> arguments) {
  Expr x = arguments[0];
  if (context.has(1)) x = pool.binary(ExprKind::Max, x, arguments[1]);
  if (context.has(2)) x = pool.binary(ExprKind::Min, x, arguments[2]);
  return x;
}

}  // namespace

std::span<const OpDef> select_ops() {
  static const OpDef defs[] = {
      {
          .name = "select",
          .summary = "a where the condition holds, else b",
          .trait = FusionTrait::Pointwise,
          .operands = {{"condition", kBool}, {"a", kAnyDType, 1}, {"b", kAnyDType, 1}},
          .attributes = {},
          .infer = infer_select,
          .contents = select_contents,
          .evaluate = evaluate_select,
          .scalar = scalar_of_kind<ExprKind::Select>,
      },
      {
          .name = "clip",
          .summary = "min(max(x, low), high): high where low > high, NaN if any is NaN",
          .trait = FusionTrait::Pointwise,
          .operands = {{"x", kNumbers, 1},
                       {"low", kNumbers, 1, OperandDef::Arity::Optional},
                       {"high", kNumbers, 1, OperandDef::Arity::Optional}},
          .attributes = {},
          .infer = infer_same_dtype,
          .evaluate = evaluate_clip,
          .scalar = scalar_clip,
      },
  };
  return defs;
}

}  // namespace opweld
