// Pointwise arithmetic of two operands.
#include "ops/broadcast.h"
#include "ops/families.h"
#include "ops/infer_helpers.h"

namespace opweld {
namespace {

Expected<std::vector<TensorType>> infer_add(const OpContext& context) {
  return infer_pointwise(context, context.type(0).dtype);
}

std::optional<std::vector<Dim>> add_contents(const OpContext& context) {
  return pointwise_contents(context, [](std::span<const Dim> x) { return x[0] + x[1]; });
}

Status evaluate_add(const EvalContext& context) {
  const Tensor& a = *context.operands[0];
  const Tensor& b = *context.operands[1];
  Tensor& sum = context.results[0];
  for_each_broadcast(context, [&](std::int64_t at, std::span<const std::int64_t> from) {
    if (is_float(sum.dtype())) {
      sum.set_double(at, a.get_double(from[0]) + b.get_double(from[1]));
    } else {
      const auto x = static_cast<std::uint64_t>(a.get_int(from[0]));
      const auto y = static_cast<std::uint64_t>(b.get_int(from[1]));
      sum.set_int(at, static_cast<std::int64_t>(x + y));
    }
  });
  return {};
}

Expr scalar_add(const OpContext&, ExprPool& pool, std::span<const Expr> arguments) {
  return pool.binary(ExprKind::Add, arguments[0], arguments[1]);
}

}  // namespace

std::span<const OpDef> arithmetic_ops() {
  static const OpDef defs[] = {
      {
          .name = "add",
          .summary = "a + b, numpy broadcasting; integers wrap",
          .trait = FusionTrait::Pointwise,
          .operands = {{"a", kNumbers, 1}, {"b", kNumbers, 1}},
          .attributes = {},
          .infer = infer_add,
          .contents = add_contents,
          .evaluate = evaluate_add,
          .scalar = scalar_add,
      },
  };
  return defs;
}

}  // namespace opweld
