// cumsum: running sums along an axis.
#include "ops/axes.h"
#include "ops/families.h"

namespace opweld {
namespace {

double plus(double a, double b) {
  return a + b;
}

std::int64_t plus(std::int64_t a, std::int64_t b) {  // wraps
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

template <typename T>
void run_sums(const EvalContext& context, T (Tensor::*get)(std::int64_t) const,
              void (Tensor::*set)(std::int64_t, T)) {
  const Tensor& x = *context.operands[0];
  Tensor& result = context.results[0];
  const int axis = *axis_attribute(context.attributes, x.rank(), -1);
  const bool exclusive = context.attributes.integer("exclusive", 0) != 0;
  const bool reverse = context.attributes.integer("reverse", 0) != 0;
  const AxisLines lines(x.sizes(), axis, axis + 1);
  lines.for_each([&](std::int64_t start) {
    T sum = 0;
    for (std::int64_t i = 0; i < lines.length; ++i) {
      const std::int64_t step = reverse ? lines.length - 1 - i : i;
      const std::int64_t at = start + step * lines.inner;
      const T with = plus(sum, (x.*get)(at));
      (result.*set)(at, exclusive ? sum : with);
      sum = with;
    }
  });
}

Status evaluate_cumsum(const EvalContext& context) {
  if (is_float(context.operands[0]->dtype())) {
    run_sums<double>(context, &Tensor::get_double, &Tensor::set_double);
  } else {
    run_sums<std::int64_t>(context, &Tensor::get_int, &Tensor::set_int);
  }
  return {};
}

}  // namespace

std::span<const OpDef> cumsum_ops() {
  static const OpDef defs[] = {
      {
          .name = "cumsum",
          .summary = "sums of the elements up to each one along `axis` (the last where absent); "
                     "without it if `exclusive`, from the end if `reverse`",
          .trait = FusionTrait::Reduce,
          .operands = {{"x", kNumbers}},
          .attributes = {{"axis", AttributeKind::Integer, false},
                         {"exclusive", AttributeKind::Integer, false},
                         {"reverse", AttributeKind::Integer, false}},
          .infer = infer_along_axis,
          .evaluate = evaluate_cumsum,
      },
  };
  return defs;
}

}  // namespace opweld
