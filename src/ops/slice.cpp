// slice: a regular selection of indices along every axis.
#include "ops/element_walk.h"
#include "ops/families.h"
#include "ops/shape_values.h"
#include "ops/size_rules.h"

namespace opweld {
namespace {

// The first and the last index read lie within the axis. Where the slice may be empty this asks for
// a little more than needed; importers clamp starts, so their slices satisfy it.
Status check_range(const OpContext& context, const Dim& extent, const Dim& start, const Dim& size,
                   std::int64_t step, std::size_t axis) {
  if (size == Dim(0)) return {};
  const Dim last = start + (size - 1) * step;
  const Dim& lowest = step > 0 ? start : last;
  const Dim& highest = step > 0 ? last : start;
  OPWELD_CHECK(require_at_most(context, 0, lowest,
                               fmt::format("the slice of axis {} must begin at 0 or later", axis)));
  return require_at_most(
      context, highest + 1, extent,
      fmt::format("the slice of axis {} must end within the size of the axis", axis));
}

Expected<std::vector<TensorType>> infer_slice(const OpContext& context) {
  const TensorType& x = context.type(0);
  const Shape& starts = context.attributes.shape("starts");
  const Shape& sizes = context.attributes.shape("sizes");
  const Ints& steps = context.attributes.ints("steps");
  const std::size_t rank = x.shape.size();
  if (starts.size() != rank || sizes.size() != rank || steps.size() != rank) {
    return fail("{} starts, {} sizes and {} steps are given, x has rank {}", starts.size(),
                sizes.size(), steps.size(), rank);
  }
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (steps[axis] == 0) return fail("the step of axis {} is zero", axis);
    OPWELD_CHECK(check_range(context, x.shape[axis], starts[axis], sizes[axis], steps[axis], axis));
  }
  return one_result(context, {x.dtype, sizes, x.format});
}

// Where the first element lies and how far apart the others are, in elements of x.
struct Selection {
  std::int64_t offset = 0;
  Sizes strides;
};

Selection select(const Sizes& x, const Sizes& starts, const Sizes& sizes, const Ints& steps) {
  Selection selection{0, row_major_strides(x)};
  for (std::size_t axis = 0; axis < x.size(); ++axis) {
    std::int64_t& stride = selection.strides[axis];
    selection.offset += starts[axis] * stride;
    // A step that is never taken may be of any size; one that is taken is less than the extent.
    stride = sizes[axis] > 1 ? stride * steps[axis] : 0;
  }
  return selection;
}

// Whether `size` indices from `start` on, `step` apart, lie in [0, extent); wants size > 0.
bool lies_within(std::int64_t extent, std::int64_t start, std::int64_t size, std::int64_t step) {
  if (start < 0 || start >= extent) return false;
  const std::int64_t steps_left = step > 0 ? (extent - 1 - start) / step : -(start / step);
  return size - 1 <= steps_left;
}

ShapeValue slice_value(const OpContext& context) {
  const auto x = constant_sizes(context.type(0).shape);
  const auto starts = constant_sizes(context.attributes.shape("starts"));
  const auto sizes = constant_sizes(context.attributes.shape("sizes"));
  if (!x || !starts || !sizes) return std::nullopt;
  const Selection selection = select(*x, *starts, *sizes, context.attributes.ints("steps"));
  return strided_contents(context.operands[0]->contents(), context.attributes.shape("sizes"),
                          selection.strides, selection.offset);
}

Status evaluate_slice(const EvalContext& context) {
  const Tensor& x = *context.operands[0];
  Tensor& result = context.results[0];
  const Ints& steps = context.attributes.ints("steps");
  OPWELD_TRY(const Sizes starts, evaluate(context.attributes.shape("starts"), context.bindings));
  if (result.num_elements() == 0) return {};
  for (std::size_t axis = 0; axis < starts.size(); ++axis) {
    const std::int64_t size = result.sizes()[axis];
    if (!lies_within(x.sizes()[axis], starts[axis], size, steps[axis])) {
      return fail("axis {} has size {}; {} elements from {} on, {} apart, are not all inside", axis,
                  x.sizes()[axis], size, starts[axis], steps[axis]);
    }
  }
  const Selection selection = select(x.sizes(), starts, result.sizes(), steps);
  walk(result.sizes(), selection.strides, selection.offset, ElementMover(result, x));
  return {};
}

}  // namespace

std::span<const OpDef> slice_ops() {
  static const OpDef defs[] = {
      {
          .name = "slice",
          .summary =
              "along each axis, `sizes` elements from `starts` on, `steps` apart (may be < 0)",
          .trait = FusionTrait::View,
          .operands = {{"x"}},
          .attributes = {{"starts", AttributeKind::Shape},
                         {"sizes", AttributeKind::Shape},
                         {"steps", AttributeKind::Ints}},
          .infer = infer_slice,
          .contents = slice_value,
          .evaluate = evaluate_slice,
      },
  };
  return defs;
}

}  // namespace opweld
