// gather, gather_elements, gather_nd: elements or slices picked by indices that are data. Negative
// indices count from the end; an index out of range is an error.
#include "ops/element_walk.h"
#include "ops/families.h"
#include "ops/indices.h"
#include "ops/infer_helpers.h"
#include "ops/shape_values.h"
#include "ops/size_rules.h"

namespace opweld {
namespace {

Expected<std::vector<TensorType>> infer_gather(const OpContext& context) {
  const TensorType& x = context.type(0);
  const Shape& indices = context.type(1).shape;
  const std::int64_t axis = context.attributes.integer("axis");
  OPWELD_CHECK(check_axis(axis, x.rank()));
  Shape shape(x.shape.begin(), x.shape.begin() + axis);
  shape.insert(shape.end(), indices.begin(), indices.end());
  shape.insert(shape.end(), x.shape.begin() + axis + 1, x.shape.end());
  return one_result(context, {x.dtype, std::move(shape)});
}

ShapeValue gather_value(const OpContext& context) {
  const auto& x = context.operands[0]->contents();
  const auto sizes = constant_sizes(context.type(0).shape);
  const auto indices = constant_contents(context, 1);
  if (!x || !sizes || !indices) return std::nullopt;
  const AxisSplit split(*sizes, static_cast<std::size_t>(context.attributes.integer("axis")));
  const auto count = split.outer * static_cast<std::int64_t>(indices->size()) * split.inner;
  if (count > kMaxShapeValueElements) return std::nullopt;
  std::vector<Dim> result;
  for (std::int64_t outer = 0; outer < split.outer; ++outer) {
    for (const std::int64_t index : *indices) {
      if (index < -split.length || index >= split.length) return std::nullopt;
      const std::int64_t place = index < 0 ? index + split.length : index;
      const auto first = x->begin() + (outer * split.length + place) * split.inner;
      result.insert(result.end(), first, first + split.inner);
    }
  }
  return result;
}

Status evaluate_gather(const EvalContext& context) {
  const Tensor& x = *context.operands[0];
  const Tensor& indices = *context.operands[1];
  const std::int64_t axis = context.attributes.integer("axis");
  const AxisSplit split(x.sizes(), static_cast<std::size_t>(axis));
  const ElementMover move(context.results[0], x);
  const std::int64_t count = indices.num_elements();
  for (std::int64_t i = 0; i < count; ++i) {
    OPWELD_TRY(const std::int64_t place, resolve_index(indices, i, split.length, axis));
    for (std::int64_t outer = 0; outer < split.outer; ++outer) {
      move((outer * count + i) * split.inner, (outer * split.length + place) * split.inner,
           split.inner);
    }
  }
  return {};
}

Expected<std::vector<TensorType>> infer_gather_elements(const OpContext& context) {
  const TensorType& x = context.type(0);
  const Shape& indices = context.type(1).shape;
  const std::int64_t axis = context.attributes.integer("axis");
  OPWELD_CHECK(check_axis(axis, x.rank()));
  OPWELD_CHECK(check_element_indices(context, axis));
  return one_result(context, {x.dtype, indices});
}

Status evaluate_gather_elements(const EvalContext& context) {
  const Tensor& x = *context.operands[0];
  const Tensor& indices = *context.operands[1];
  const auto axis = static_cast<std::size_t>(context.attributes.integer("axis"));
  const ElementMover move(context.results[0], x);
  return for_each_indexed(indices, x.sizes(), axis,
                          [&](std::int64_t to, std::int64_t from) { move(to, from); });
}

Expected<std::vector<TensorType>> infer_gather_nd(const OpContext& context) {
  const TensorType& x = context.type(0);
  const Shape& indices = context.type(1).shape;
  const std::int64_t batch = context.attributes.integer("batch_dims");
  if (indices.empty()) return fail("indices must have at least one axis");
  const auto index_rank = static_cast<std::int64_t>(indices.size());
  if (batch < 0 || batch >= index_rank || batch >= x.rank()) {
    return fail("batch_dims {} must be less than the ranks of x ({}) and indices ({})", batch,
                x.rank(), index_rank);
  }
  const auto depth = indices.back().constant();
  if (!depth) return fail("the last size of indices must be known, it is {}", indices.back());
  if (batch + *depth > x.rank()) {
    return fail("indices address {} axes after {} batch axes, x has rank {}", *depth, batch,
                x.rank());
  }
  Shape shape(indices.begin(), indices.end() - 1);
  for (std::int64_t axis = 0; axis < batch; ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    OPWELD_TRY(shape[i], unify_sizes(x.shape[i], indices[i],
                                     fmt::format("batch axis {} of x and indices", axis),
                                     context.assumptions));
  }
  shape.insert(shape.end(), x.shape.begin() + batch + *depth, x.shape.end());
  return one_result(context, {x.dtype, std::move(shape)});
}

Status evaluate_gather_nd(const EvalContext& context) {
  const Tensor& x = *context.operands[0];
  const Tensor& indices = *context.operands[1];
  const auto batch = static_cast<std::size_t>(context.attributes.integer("batch_dims"));
  const std::int64_t depth = indices.sizes().back();
  const Sizes strides = row_major_strides(x.sizes());
  const auto addressed = batch + static_cast<std::size_t>(depth);
  const std::int64_t block = num_elements(
      Sizes(x.sizes().begin() + static_cast<std::ptrdiff_t>(addressed), x.sizes().end()));
  const ElementMover move(context.results[0], x);
  // The batch axes lead both x and indices, so a tuple finds its batch by walking them.
  const Sizes tuples(indices.sizes().begin(), indices.sizes().end() - 1);
  Sizes tuple_strides(tuples.size(), 0);
  for (std::size_t axis = 0; axis < batch; ++axis) tuple_strides[axis] = strides[axis];
  Status status;
  walk(tuples, tuple_strides, 0, [&](std::int64_t tuple, std::int64_t batch_offset) {
    std::int64_t from = batch_offset;
    for (std::size_t axis = batch; status && axis < addressed; ++axis) {
      const auto place =
          resolve_index(indices, tuple * depth + static_cast<std::int64_t>(axis - batch),
                        x.sizes()[axis], static_cast<std::int64_t>(axis));
      if (!place) {
        status = tl::unexpected(place.error());
      } else {
        from += *place * strides[axis];
      }
    }
    if (status) move(tuple * block, from, block);
  });
  return status;
}

}  // namespace

std::span<const OpDef> gather_ops() {
  static const OpDef defs[] = {
      {
          .name = "gather",
          .summary = "slices of x along `axis`, which the axes of indices replace (numpy.take)",
          .trait = FusionTrait::View,
          .operands = {{"x"}, {"indices", kIndices}},
          .attributes = {{"axis", AttributeKind::Integer}},
          .infer = infer_gather,
          .contents = gather_value,
          .evaluate = evaluate_gather,
      },
      {
          .name = "gather_elements",
          .summary = "x at each index of `indices`, whose values stand in along `axis` "
                     "(numpy.take_along_axis); the shape is that of indices",
          .trait = FusionTrait::View,
          .operands = {{"x"}, {"indices", kIndices}},
          .attributes = {{"axis", AttributeKind::Integer}},
          .infer = infer_gather_elements,
          .evaluate = evaluate_gather_elements,
      },
      {
          .name = "gather_nd",
          .summary = "blocks of x addressed by the tuples along the last axis of indices, after "
                     "`batch_dims` leading axes that both share (ONNX GatherND)",
          .trait = FusionTrait::View,
          .operands = {{"x"}, {"indices", kIndices}},
          .attributes = {{"batch_dims", AttributeKind::Integer}},
          .infer = infer_gather_nd,
          .evaluate = evaluate_gather_nd,
      },
  };
  return defs;
}

}  // namespace opweld
