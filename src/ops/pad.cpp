// pad: axes extended at both ends, or cropped where the amount is negative.
#include <algorithm>
#include <optional>

#include "ops/element_walk.h"
#include "ops/families.h"
#include "ops/size_rules.h"

namespace opweld {
namespace {

enum class PadMode : std::uint8_t { Constant, Edge, Reflect, Wrap };

std::optional<PadMode> parse_mode(std::string_view text) {
  if (text == "constant") return PadMode::Constant;
  if (text == "edge") return PadMode::Edge;
  if (text == "reflect") return PadMode::Reflect;
  if (text == "wrap") return PadMode::Wrap;
  return std::nullopt;
}

Expected<std::vector<TensorType>> infer_pad(const OpContext& context) {
  TensorType result = context.type(0);
  const Shape& before = context.attributes.shape("before");
  const Shape& after = context.attributes.shape("after");
  const std::string& mode = context.attributes.text("mode");
  if (!parse_mode(mode)) {
    return fail("mode \"{}\" is none of \"constant\", \"edge\", \"reflect\", \"wrap\"", mode);
  }
  if (before.size() != result.shape.size() || after.size() != result.shape.size()) {
    return fail("{} amounts before and {} after are given, x has rank {}", before.size(),
                after.size(), result.rank());
  }
  if (context.has(1) && context.type(1).rank() != 0) {
    return fail("the padding value must be a scalar, it has rank {}", context.type(1).rank());
  }
  for (std::size_t axis = 0; axis < result.shape.size(); ++axis) {
    Dim& size = result.shape[axis];
    OPWELD_CHECK(
        require_at_most(context, 0, size + min(before[axis], 0) + min(after[axis], 0),
                        fmt::format("axis {}: no more may be cropped than there is", axis)));
    size += before[axis] + after[axis];
  }
  return one_result(context, std::move(result));
}

constexpr std::int64_t kOutside = -1;

std::int64_t floored_mod(std::int64_t a, std::int64_t b) {
  return ((a % b) + b) % b;
}

// The position within [0, length) that stands at `index`, which may lie outside; kOutside for the
// constant. Reflection does not repeat the edge and runs back and forth as often as needed, as
// numpy.pad does.
std::int64_t mirrored(std::int64_t index, std::int64_t length, PadMode mode) {
  if (index >= 0 && index < length) return index;
  switch (mode) {
    case PadMode::Constant:
      return kOutside;
    case PadMode::Edge:
      return std::clamp<std::int64_t>(index, 0, length - 1);
    case PadMode::Wrap:
      return floored_mod(index, length);
    case PadMode::Reflect:
      break;
  }
  if (length == 1) return 0;
  const std::int64_t period = 2 * (length - 1);
  const std::int64_t phase = floored_mod(index, period);
  return std::min(phase, period - phase);
}

// For each index of the result along one axis, the index in x. Cropping comes first: the modes see
// what is left.
Expected<Sizes> source_indices(std::int64_t size, std::int64_t before, std::int64_t after,
                               PadMode mode) {
  const std::int64_t cropped = std::max<std::int64_t>(-before, 0);
  const std::int64_t length = size - cropped - std::max<std::int64_t>(-after, 0);
  if (length <= 0 && size + before + after > 0 && mode != PadMode::Constant) {
    return fail("an empty axis cannot be padded from its own elements");
  }
  Sizes indices;
  for (std::int64_t i = 0; i < size + before + after; ++i) {
    const std::int64_t index = mirrored(i - std::max<std::int64_t>(before, 0), length, mode);
    indices.push_back(index == kOutside ? kOutside : cropped + index);
  }
  return indices;
}

// The linear position in x of the element at `index` of the result; kOutside for the constant.
std::int64_t source_position(const Sizes& index, const std::vector<Sizes>& sources,
                             const Sizes& strides) {
  std::int64_t position = 0;
  for (std::size_t axis = 0; axis < index.size(); ++axis) {
    const std::int64_t source = sources[axis][static_cast<std::size_t>(index[axis])];
    if (source == kOutside) return kOutside;
    position += source * strides[axis];
  }
  return position;
}

Status evaluate_pad(const EvalContext& context) {
  const Tensor& x = *context.operands[0];
  Tensor& result = context.results[0];
  const PadMode mode = *parse_mode(context.attributes.text("mode"));
  OPWELD_TRY(const Sizes before, evaluate(context.attributes.shape("before"), context.bindings));
  OPWELD_TRY(const Sizes after, evaluate(context.attributes.shape("after"), context.bindings));
  std::vector<Sizes> sources;
  for (std::size_t axis = 0; axis < before.size(); ++axis) {
    auto indices = source_indices(x.sizes()[axis], before[axis], after[axis], mode);
    if (!indices) return fail("axis {}: {}", axis, indices.error().message);
    sources.push_back(std::move(*indices));
  }
  const Tensor* value = context.operands.size() > 1 ? context.operands[1] : nullptr;
  const ElementMover move(result, x);
  const ElementMover fill(result, value != nullptr ? *value : x);
  const Sizes strides = row_major_strides(x.sizes());
  for_each_index(result.sizes(), [&](std::int64_t position, const Sizes& index) {
    const std::int64_t from = source_position(index, sources, strides);
    if (from != kOutside) {
      move(position, from);
    } else if (value != nullptr) {
      fill(position, 0);
    }
  });
  return {};
}

}  // namespace

std::span<const OpDef> pad_ops() {
  static const OpDef defs[] = {
      {
          .name = "pad",
          .summary =
              "x with `before` and `after` elements added (cropped where negative) on each axis: "
              "`value` (zero by default), the edge, the reflection or the other end",
          .trait = FusionTrait::View,
          .operands = {{"x", kAnyDType, 1}, {"value", kAnyDType, 1, OperandDef::Arity::Optional}},
          .attributes = {{"before", AttributeKind::Shape},
                         {"after", AttributeKind::Shape},
                         {"mode", AttributeKind::Text}},
          .infer = infer_pad,
          .evaluate = evaluate_pad,
      },
  };
  return defs;
}

}  // namespace opweld
