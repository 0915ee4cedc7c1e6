// tile: the whole tensor repeated along its axes.
#include "ops/element_walk.h"
#include "ops/families.h"
#include "ops/shape_values.h"
#include "ops/size_rules.h"

namespace opweld {
namespace {

Expected<std::vector<TensorType>> infer_tile(const OpContext& context) {
  TensorType result = context.type(0);
  const Shape& repeats = context.attributes.shape("repeats");
  if (repeats.size() != result.shape.size()) {
    return fail("{} repeats are given, x has rank {}", repeats.size(), result.rank());
  }
  OPWELD_CHECK(check_sizes(context, repeats, "the repeat of axis"));
  for (std::size_t axis = 0; axis < repeats.size(); ++axis) result.shape[axis] *= repeats[axis];
  return one_result(context, std::move(result));
}

// Each axis of the result is read as two, [repeat, index in x], of which the first does not move in
// x; row-major order is the same.
Status evaluate_tile(const EvalContext& context) {
  const Tensor& x = *context.operands[0];
  Tensor& result = context.results[0];
  OPWELD_TRY(const Sizes repeats, evaluate(context.attributes.shape("repeats"), context.bindings));
  const Sizes x_strides = row_major_strides(x.sizes());
  Sizes sizes;
  Sizes strides;
  for (std::size_t axis = 0; axis < repeats.size(); ++axis) {
    sizes.insert(sizes.end(), {repeats[axis], x.sizes()[axis]});
    strides.insert(strides.end(), {0, x_strides[axis]});
  }
  walk(sizes, strides, 0, ElementMover(result, x));
  return {};
}

}  // namespace

std::span<const OpDef> tile_ops() {
  static const OpDef defs[] = {
      {
          .name = "tile",
          .summary = "x repeated repeats[i] times along each axis i (numpy.tile)",
          .trait = FusionTrait::View,
          .operands = {{"x"}},
          .attributes = {{"repeats", AttributeKind::Shape}},
          .infer = infer_tile,
          .evaluate = evaluate_tile,
      },
  };
  return defs;
}

}  // namespace opweld
