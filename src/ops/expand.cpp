// expand: elements repeated along axes of size one and along new leading axes.
#include "ops/element_walk.h"
#include "ops/families.h"
#include "ops/infer_helpers.h"
#include "ops/shape_values.h"
#include "ops/size_rules.h"

namespace opweld {
namespace {

// Axes are aligned at the last one. A size that is not provably one must be the target's own: a
// symbolic size is not taken to broadcast, since which elements are read would depend on its value.
Expected<std::vector<TensorType>> infer_expand(const OpContext& context) {
  const TensorType& x = context.type(0);
  const Shape& target = context.attributes.shape("shape");
  if (x.shape.size() > target.size()) {
    return fail("x has rank {}, more than the {} axes of the target shape", x.rank(),
                target.size());
  }
  const std::size_t added = target.size() - x.shape.size();
  for (std::size_t axis = 0; axis < x.shape.size(); ++axis) {
    if (x.shape[axis] == Dim(1)) continue;
    OPWELD_TRY([[maybe_unused]] const Dim size,
               unify_sizes(x.shape[axis], target[added + axis],
                           fmt::format("axis {} of x, which is not 1, and axis {} of the target",
                                       axis, added + axis),
                           context.assumptions));
  }
  return one_result(context, {x.dtype, target});
}

// Strides over the target's axes: zero where an element repeats.
Sizes expand_strides(const Sizes& x, std::size_t target_rank) {
  const Sizes strides = row_major_strides(x);
  const std::size_t added = target_rank - x.size();
  Sizes result(target_rank, 0);
  for (std::size_t axis = 0; axis < x.size(); ++axis) {
    if (x[axis] != 1) result[added + axis] = strides[axis];
  }
  return result;
}

ShapeValue expand_value(const OpContext& context) {
  const Shape& target = context.attributes.shape("shape");
  const auto sizes = constant_sizes(context.type(0).shape);
  if (!sizes) return std::nullopt;
  return strided_contents(context.operands[0]->contents(), target,
                          expand_strides(*sizes, target.size()), 0);
}

Status evaluate_expand(const EvalContext& context) {
  const Tensor& x = *context.operands[0];
  Tensor& result = context.results[0];
  walk(result.sizes(), expand_strides(x.sizes(), result.sizes().size()), 0,
       ElementMover(result, x));
  return {};
}

}  // namespace

std::span<const OpDef> expand_ops() {
  static const OpDef defs[] = {
      {
          .name = "expand",
          .summary = "x broadcast to `shape`, axes aligned at the last (numpy.broadcast_to)",
          .trait = FusionTrait::Broadcast,
          .operands = {{"x"}},
          .attributes = {{"shape", AttributeKind::Shape}},
          .infer = infer_expand,
          .contents = expand_value,
          .evaluate = evaluate_expand,
      },
  };
  return defs;
}

}  // namespace opweld
