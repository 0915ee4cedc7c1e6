// argmax and argmin: where along an axis the greatest (least) element lies.
#include <cmath>

#include "ops/axes.h"
#include "ops/families.h"

namespace opweld {
namespace {

// An axis of no elements has no greatest one: its size is proven, or assumed, to be at least 1.
Status require_elements(const OpContext& context, const Dim& size, int axis) {
  if (size == Dim(0))
    return fail("axis {} has no elements, so none is the greatest or least", axis);
  if (size.lower_bound() < 1 && context.assumptions != nullptr) {
    context.assumptions->push_back({max(size, 1), size, fmt::format("axis {} is not empty", axis)});
  }
  return {};
}

Expected<std::vector<TensorType>> infer_arg_reduction(const OpContext& context) {
  const TensorType& x = context.type(0);
  OPWELD_TRY(const int axis, axis_attribute(context.attributes, x.rank(), 0));
  OPWELD_CHECK(require_elements(context, x.shape[static_cast<std::size_t>(axis)], axis));
  return std::vector<TensorType>{
      {DType::I64, reduced_shape(x.shape, {axis}, keeps_dims(context.attributes))}};
}

// Whether `a` comes before `b` in the order that is searched: descending for a maximum. NaN comes
// before every number (numpy.argmax and numpy.argmin agree in this).
template <bool greatest>
bool precedes(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && !std::isnan(b);
  return greatest ? a > b : a < b;
}

template <bool greatest>
bool precedes(std::int64_t a, std::int64_t b) {
  return greatest ? a > b : a < b;
}

template <bool greatest, typename T>
void find_all(const EvalContext& context, T (Tensor::*get)(std::int64_t) const) {
  const Tensor& x = *context.operands[0];
  Tensor& result = context.results[0];
  const int axis = *axis_attribute(context.attributes, x.rank(), 0);
  const bool last = context.attributes.integer("select_last", 0) != 0;
  const AxisLines lines(x.sizes(), axis, axis + 1);
  std::int64_t line = 0;
  lines.for_each([&](std::int64_t start) {
    const auto element = [&](std::int64_t i) { return (x.*get)(start + i * lines.inner); };
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < lines.length; ++i) {
      const bool better = precedes<greatest>(element(i), element(best));
      const bool equal = !better && !precedes<greatest>(element(best), element(i));
      if (better || (last && equal)) best = i;
    }
    result.set_int(line++, best);
  });
}

template <bool greatest>
Status evaluate_arg_reduction(const EvalContext& context) {
  const Tensor& x = *context.operands[0];
  if (is_float(x.dtype())) {
    find_all<greatest>(context, &Tensor::get_double);
  } else {
    find_all<greatest>(context, &Tensor::get_int);
  }
  return {};
}

template <bool greatest>
OpDef arg_reduction_op(std::string_view name, std::string_view summary) {
  return {.name = name,
          .summary = summary,
          .trait = FusionTrait::Reduce,
          .operands = {{"x", kNumbers}},
          .attributes = {{"axis", AttributeKind::Integer, false},
                         {"keepdims", AttributeKind::Integer, false},
                         {"select_last", AttributeKind::Integer, false}},
          .infer = infer_arg_reduction,
          .evaluate = evaluate_arg_reduction<greatest>};
}

}  // namespace

std::span<const OpDef> arg_reduce_ops() {
  static const OpDef defs[] = {
      arg_reduction_op<true>(
          "argmax", "index along `axis` of the greatest element, the first or last of equal ones"),
      arg_reduction_op<false>(
          "argmin", "index along `axis` of the least element, the first or last of equal ones"),
  };
  return defs;
}

}  // namespace opweld
