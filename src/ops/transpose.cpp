// transpose: axes in another order.
#include "ops/element_walk.h"
#include "ops/families.h"
#include "ops/shape_values.h"
#include "ops/size_rules.h"

namespace opweld {
namespace {

Status check_permutation(const Ints& permutation, int rank) {
  if (permutation.size() != static_cast<std::size_t>(rank)) {
    return fail("permutation has {} entries, x has rank {}", permutation.size(), rank);
  }
  std::vector<bool> seen(permutation.size(), false);
  for (const std::int64_t axis : permutation) {
    OPWELD_CHECK(check_axis(axis, rank));
    if (seen[static_cast<std::size_t>(axis)]) return fail("permutation names axis {} twice", axis);
    seen[static_cast<std::size_t>(axis)] = true;
  }
  return {};
}

template <typename T>
std::vector<T> permuted(const std::vector<T>& values, const Ints& permutation) {
  std::vector<T> result;
  result.reserve(permutation.size());
  for (const std::int64_t axis : permutation) {
    result.push_back(values[static_cast<std::size_t>(axis)]);
  }
  return result;
}

Expected<std::vector<TensorType>> infer_transpose(const OpContext& context) {
  const TensorType& x = context.type(0);
  const Ints& permutation = context.attributes.ints("permutation");
  OPWELD_CHECK(check_permutation(permutation, x.rank()));
  return one_result(context, {x.dtype, permuted(x.shape, permutation)});
}

ShapeValue transpose_value(const OpContext& context) {
  const Ints& permutation = context.attributes.ints("permutation");
  const Shape& shape = context.type(0).shape;
  const auto sizes = constant_sizes(shape);
  if (!sizes) return std::nullopt;
  return strided_contents(context.operands[0]->contents(), permuted(shape, permutation),
                          permuted(row_major_strides(*sizes), permutation), 0);
}

Status evaluate_transpose(const EvalContext& context) {
  const Tensor& x = *context.operands[0];
  Tensor& result = context.results[0];
  const Sizes strides =
      permuted(row_major_strides(x.sizes()), context.attributes.ints("permutation"));
  walk(result.sizes(), strides, 0, ElementMover(result, x));
  return {};
}

}  // namespace

std::span<const OpDef> transpose_ops() {
  static const OpDef defs[] = {
      {
          .name = "transpose",
          .summary = "axis i of the result is axis permutation[i] of x (numpy.transpose)",
          .trait = FusionTrait::View,
          .operands = {{"x"}},
          .attributes = {{"permutation", AttributeKind::Ints}},
          .infer = infer_transpose,
          .contents = transpose_value,
          .evaluate = evaluate_transpose,
      },
  };
  return defs;
}

}  // namespace opweld
