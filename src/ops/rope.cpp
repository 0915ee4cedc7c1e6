// rope: rotary position embedding (Su et al., "RoFormer", 2021).
//
// The first R = 2 P elements of a head are P pairs; pair p of position s is turned by an angle of
// which cos[s, p] and sin[s, p] are given; elements from R on pass unchanged. A pair is (p, p + P),
// or (2 p, 2 p + 1) if interleaved. Computed in the compute type and rounded once.
#include "ops/composite.h"
#include "ops/families.h"
#include "ops/infer_helpers.h"

namespace opweld {
namespace {

bool is_interleaved(const Attributes& attributes) {
  return attributes.integer("interleaved", 0) != 0;
}

// ---- shape rule ----

Status check_angles(const OpContext& context, int index, std::string_view name) {
  const Shape& x = context.type(0).shape;
  const Shape& angles = context.type(index).shape;
  if (angles.size() != 2 && angles.size() != 3) {
    return fail("operand '{}' must be [positions, pairs] or [batch, positions, pairs], but is {}",
                name, to_string(context.type(index)));
  }
  const auto what = [&](std::string_view axis) {
    return fmt::format("the {} of 'x' and '{}'", axis, name);
  };
  if (angles.size() == 3 && angles[0] != Dim(1)) {
    OPWELD_CHECK(require_same_size(context, x[0], angles[0], what("batch")));
  }
  return require_same_size(context, x[2], angles[angles.size() - 2], what("positions"));
}

Expected<std::vector<TensorType>> infer_rope(const OpContext& context) {
  OPWELD_CHECK(require_rank(context, 0, 4));
  OPWELD_CHECK(check_angles(context, 1, "cos"));
  OPWELD_CHECK(check_angles(context, 2, "sin"));
  const Dim& pairs = context.type(1).shape.back();
  OPWELD_CHECK(require_same_size(context, pairs, context.type(2).shape.back(),
                                 "the pairs of 'cos' and 'sin'"));
  const Dim& head = context.type(0).shape[3];
  if (provably_lt(head, 2 * pairs)) {
    return fail("{} pairs of elements are more than the head of {} elements holds", pairs, head);
  }
  if (!provably_le(2 * pairs, head) && context.assumptions != nullptr) {
    context.assumptions->push_back({max(head, 2 * pairs), head, "the pairs fit into the head"});
  }
  return std::vector<TensorType>{context.type(0)};
}

// ---- evaluation ----

struct Place {
  std::int64_t first, second;  // of a pair, within the head
};

Place place_of(std::int64_t pair, std::int64_t pairs, bool interleaved) {
  return interleaved ? Place{2 * pair, 2 * pair + 1} : Place{pair, pair + pairs};
}

// Position in cos or sin of the angles of batch b, position s.
std::int64_t angles_at(const Tensor& angles, std::int64_t b, std::int64_t s) {
  const Sizes& sizes = angles.sizes();
  const bool per_batch = sizes.size() == 3 && sizes[0] != 1;
  const std::int64_t positions = sizes[sizes.size() - 2];
  return ((per_batch ? b : 0) * positions + s) * sizes.back();
}

Status evaluate_rope(const EvalContext& context) {
  const Tensor& x = *context.operands[0];
  const Tensor& cos = *context.operands[1];
  const Tensor& sin = *context.operands[2];
  Tensor& result = context.results[0];
  const bool interleaved = is_interleaved(context.attributes);
  const std::int64_t heads = x.sizes()[1];
  const std::int64_t positions = x.sizes()[2];
  const std::int64_t head = x.sizes()[3];
  const std::int64_t pairs = cos.sizes().back();
  const std::int64_t rows = x.sizes()[0] * heads * positions;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t s = row % positions;
    const std::int64_t b = row / positions / heads;
    for (std::int64_t p = 0; p < pairs; ++p) {
      const Place place = place_of(p, pairs, interleaved);
      const double first = x.get_double(row * head + place.first);
      const double second = x.get_double(row * head + place.second);
      const double c = cos.get_double(angles_at(cos, b, s) + p);
      const double d = sin.get_double(angles_at(sin, b, s) + p);
      result.set_double(row * head + place.first, first * c - second * d);
      result.set_double(row * head + place.second, first * d + second * c);
    }
    for (std::int64_t i = 2 * pairs; i < head; ++i) {
      result.set_double(row * head + i, x.get_double(row * head + i));
    }
  }
  return {};
}

// ---- body ----

// Elements start, start + step ... of every head, `count` of them.
Value* part_of_head(Builder& builder, Value* x, const Shape& shape, const Dim& start,
                    const Dim& count, std::int64_t step) {
  Shape sizes = shape;
  sizes[3] = count;
  return builder.op(
      "slice", {x},
      {{"starts", Shape{0, 0, 0, start}}, {"sizes", sizes}, {"steps", Ints{1, 1, 1, step}}});
}

// cos or sin as [B or 1, 1, S, P], which broadcasts over heads.
Value* over_heads(Builder& builder, Value* angles, DType dtype) {
  Shape shape = angles->shape();
  if (shape.size() == 2) shape.insert(shape.begin(), 1);
  shape.insert(shape.begin() + 1, 1);
  return builder.reshape(builder.cast(angles, dtype), std::move(shape));
}

// The elements of the pairs in their places.
Value* woven(Builder& builder, Value* first, Value* second, const Shape& shape, const Dim& pairs,
             bool interleaved) {
  if (!interleaved) return builder.op("concat", {first, second}, {{"axis", std::int64_t{3}}});
  Shape column = shape;
  column[3] = pairs;
  column.push_back(1);
  Value* columns =
      builder.op("concat", {builder.reshape(first, column), builder.reshape(second, column)},
                 {{"axis", std::int64_t{4}}});
  Shape joined = shape;
  joined[3] = 2 * pairs;
  return builder.reshape(columns, std::move(joined));
}

Expected<std::vector<Value*>> rope_body(Graph& graph, const Node& node) {
  Builder builder = body_builder(graph, node);
  const TensorType& type = node.operand(0)->type();
  const Shape& shape = type.shape;
  const DType dtype = compute_dtype(type.dtype);
  const bool interleaved = is_interleaved(node.attributes());
  const Dim pairs = node.operand(1)->shape().back();

  Value* x = builder.cast(node.operand(0), dtype);
  const std::int64_t step = interleaved ? 2 : 1;
  Value* first = part_of_head(builder, x, shape, 0, pairs, step);
  Value* second = part_of_head(builder, x, shape, interleaved ? Dim(1) : pairs, pairs, step);
  Value* cos = over_heads(builder, node.operand(1), dtype);
  Value* sin = over_heads(builder, node.operand(2), dtype);
  Value* turned_first =
      builder.binary("sub", builder.binary("mul", first, cos), builder.binary("mul", second, sin));
  Value* turned_second =
      builder.binary("add", builder.binary("mul", first, sin), builder.binary("mul", second, cos));
  Value* result = woven(builder, turned_first, turned_second, shape, pairs, interleaved);
  const Dim rest = shape[3] - 2 * pairs;
  if (rest != Dim(0)) {
    Value* unchanged = part_of_head(builder, x, shape, 2 * pairs, rest, 1);
    result = builder.op("concat", {result, unchanged}, {{"axis", std::int64_t{3}}});
  }
  return finish_body(builder, builder.cast(result, type.dtype));
}

}  // namespace

std::span<const OpDef> rope_ops() {
  static const OpDef defs[] = {
      {
          .name = "rope",
          .summary = "x[B, H, S, D] with pairs of elements turned by cos and sin [S, P] or "
                     "[B or 1, S, P], 2 P <= D; see the head of ops/rope.cpp",
          .trait = FusionTrait::Composite,
          .operands = {{"x", kFloats}, {"cos", kFloats}, {"sin", kFloats}},
          .attributes = {{"interleaved", AttributeKind::Integer, false}},
          .infer = infer_rope,
          .evaluate = evaluate_rope,
          .body = rope_body,
      },
  };
  return defs;
}

}  // namespace opweld
