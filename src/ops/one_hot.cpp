// one_hot: indices spelled as vectors with a single "on".
#include "ops/composite.h"
#include "ops/element_walk.h"
#include "ops/families.h"
#include "ops/infer_helpers.h"
#include "ops/size_rules.h"

namespace opweld {
namespace {

Expected<std::vector<TensorType>> infer_one_hot(const OpContext& context) {
  Shape shape = context.type(0).shape;
  const TensorType& values = context.type(1);
  const std::int64_t axis = context.attributes.integer("axis");
  OPWELD_CHECK(check_axis(axis, static_cast<int>(shape.size()) + 1));
  OPWELD_TRY(const Dim depth, single_dim(context.attributes, "depth"));
  OPWELD_CHECK(require_rank(context, 1, 1));
  OPWELD_TRY(
      [[maybe_unused]] const Dim pair,
      unify_sizes(values.shape[0], 2, "values and the pair of off and on", context.assumptions));
  shape.insert(shape.begin() + axis, depth);
  return one_result(context, {values.dtype, std::move(shape)});
}

Status evaluate_one_hot(const EvalContext& context) {
  const Tensor& indices = *context.operands[0];
  Tensor& result = context.results[0];
  const auto axis = static_cast<std::size_t>(context.attributes.integer("axis"));
  const AxisSplit split(result.sizes(), axis);
  const ElementMover move(result, *context.operands[1]);
  for (std::int64_t i = 0; i < indices.num_elements(); ++i) {
    const std::int64_t index = indices.get_int(i);
    const std::int64_t hot = index < 0 ? index + split.length : index;
    for (std::int64_t place = 0; place < split.length; ++place) {
      const std::int64_t outer = i / split.inner;
      const std::int64_t inner = i % split.inner;
      move((outer * split.length + place) * split.inner + inner, place == hot ? 1 : 0);
    }
  }
  return {};
}

// values[which] as a scalar.
Value* pick(Builder& builder, Value* values, std::int64_t which) {
  Value* element = builder.op("slice", {values},
                              {{"starts", Shape{which}}, {"sizes", Shape{1}}, {"steps", Ints{1}}});
  return builder.reshape(element, {});
}

// select(index == iota, on, off), after negative indices have been moved up by the depth.
Expected<std::vector<Value*>> one_hot_body(Graph& graph, const Node& node) {
  Builder builder = body_builder(graph, node);
  const auto axis = node.attributes().integer("axis");
  const Shape& depth = node.attributes().shape("depth");
  Shape column = node.operand(0)->shape();
  column.insert(column.begin() + axis, 1);
  Shape row(column.size(), 1);
  row[static_cast<std::size_t>(axis)] = depth[0];

  Value* index = builder.reshape(builder.cast(node.operand(0), DType::I64), column);
  Value* is_negative = builder.binary("lt", index, builder.scalar(0, DType::I64));
  Value* depth_scalar = builder.reshape(builder.op("sizes", {}, {{"values", depth}}), {});
  Value* from_end = builder.binary("add", index, depth_scalar);
  Value* hot = builder.op("select", {is_negative, from_end, index});
  Value* place = builder.op("iota", {}, {{"shape", row}, {"axis", axis}, {"dtype", DType::I64}});
  Value* is_hot = builder.binary("eq", hot, place);
  Value* off = pick(builder, node.operand(1), 0);
  Value* on = pick(builder, node.operand(1), 1);
  Value* result = builder.op("select", {is_hot, on, off});
  return finish_body(builder, result);
}

}  // namespace

std::span<const OpDef> one_hot_ops() {
  static const OpDef defs[] = {
      {
          .name = "one_hot",
          .summary = "a new `axis` of size `depth` that holds values[1] at the index and values[0] "
                     "elsewhere; negative indices count from the end, others match nowhere "
                     "(ONNX OneHot)",
          .trait = FusionTrait::Composite,
          .operands = {{"indices", kIndices}, {"values"}},
          .attributes = {{"axis", AttributeKind::Integer}, {"depth", AttributeKind::Shape}},
          .infer = infer_one_hot,
          .evaluate = evaluate_one_hot,
          .body = one_hot_body,
      },
  };
  return defs;
}

}  // namespace opweld
