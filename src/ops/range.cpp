// range: numbers at equal distances.
#include "ops/composite.h"
#include "ops/families.h"
#include "ops/shape_values.h"
#include "ops/size_rules.h"

namespace opweld {
namespace {

Expected<std::vector<TensorType>> infer_range(const OpContext& context) {
  OPWELD_TRY(const Dim length, single_dim(context.attributes, "length"));
  if (context.type(0).rank() != 0 || context.type(1).rank() != 0) {
    return fail("start and step must be scalars, their ranks are {} and {}", context.type(0).rank(),
                context.type(1).rank());
  }
  return one_result(context, {context.type(0).dtype, {length}});
}

ShapeValue range_value(const OpContext& context) {
  const auto& start = context.operands[0]->contents();
  const auto& step = context.operands[1]->contents();
  const auto length = context.attributes.shape("length")[0].constant();
  if (!start || !step || !length || *length > kMaxShapeValueElements) return std::nullopt;
  std::vector<Dim> result;
  result.reserve(static_cast<std::size_t>(*length));
  for (std::int64_t i = 0; i < *length; ++i) result.push_back((*start)[0] + (*step)[0] * i);
  return result;
}

Status evaluate_range(const EvalContext& context) {
  const Tensor& start = *context.operands[0];
  const Tensor& step = *context.operands[1];
  Tensor& result = context.results[0];
  for (std::int64_t i = 0; i < result.num_elements(); ++i) {
    if (is_float(result.dtype())) {
      result.set_double(i, start.get_double(0) + static_cast<double>(i) * step.get_double(0));
    } else {  // modulo 2^64, then the width of the dtype
      const auto first = static_cast<std::uint64_t>(start.get_int(0));
      const auto stride = static_cast<std::uint64_t>(step.get_int(0));
      const std::uint64_t value = first + static_cast<std::uint64_t>(i) * stride;
      result.set_int(i, static_cast<std::int64_t>(value));
    }
  }
  return {};
}

// start + iota * step in the compute type: a half cannot count beyond 2048.
Expected<std::vector<Value*>> range_body(Graph& graph, const Node& node) {
  Builder builder = body_builder(graph, node);
  const DType dtype = node.operand(0)->dtype();
  const DType wide = compute_dtype(dtype);
  Value* count = builder.op(
      "iota", {},
      {{"shape", node.attributes().shape("length")}, {"axis", std::int64_t{0}}, {"dtype", wide}});
  Value* distance = builder.binary("mul", count, builder.cast(node.operand(1), wide));
  Value* sum = builder.binary("add", builder.cast(node.operand(0), wide), distance);
  Value* result = builder.cast(sum, dtype);
  return finish_body(builder, result);
}

}  // namespace

std::span<const OpDef> range_ops() {
  static const OpDef defs[] = {
      {
          .name = "range",
          .summary = "[length] of start + i * step, start and step scalars (numpy.arange)",
          .trait = FusionTrait::Composite,
          .operands = {{"start", kNumbers, 1}, {"step", kNumbers, 1}},
          .attributes = {{"length", AttributeKind::Shape}},
          .infer = infer_range,
          .contents = range_value,
          .evaluate = evaluate_range,
          .body = range_body,
      },
  };
  return defs;
}

}  // namespace opweld
