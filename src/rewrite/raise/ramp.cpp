#include "rewrite/raise/ramp.h"

#include <cmath>

#include "rewrite/match.h"

namespace opweld {

namespace {

using MaybeRamp = std::optional<Ramp>;

enum class Numbers : std::uint8_t { Integers, Reals };

MaybeRamp ramp_of(const Value* value, Numbers numbers);

Ramp level(const Value* value, Dim offset) {
  return {std::vector<std::int64_t>(value->shape().size(), 0), std::move(offset)};
}

// The operand's ramp under another shape that differs in axes of one element.
MaybeRamp reshaped(const Node& node, Numbers numbers) {
  const Value* const from = node.operand(0);
  const Value* const to = node.result();
  const MaybeRamp ramp = ramp_of(from, numbers);
  if (!ramp) return std::nullopt;
  Ramp result = level(to, ramp->offset);
  std::size_t at = 0;
  for (std::size_t axis = 0; axis < from->shape().size(); ++axis) {
    if (size_from_last(from, axis) == Dim(1)) continue;
    while (at < to->shape().size() && size_from_last(to, at) == Dim(1)) ++at;
    if (at == to->shape().size() || size_from_last(to, at) != size_from_last(from, axis)) {
      return std::nullopt;
    }
    result.steps[at++] = ramp->steps[axis];
  }
  return result;
}

MaybeRamp combined(const Node& node, std::int64_t sign, Numbers numbers) {
  Ramp result = level(node.result(), 0);
  for (int side = 0; side < 2; ++side) {
    const MaybeRamp ramp = ramp_of(node.operand(side), numbers);
    if (!ramp) return std::nullopt;
    const std::int64_t factor = side == 0 ? 1 : sign;
    for (std::size_t axis = 0; axis < ramp->steps.size(); ++axis) {
      if (size_from_last(node.operand(side), axis) == Dim(1)) continue;
      result.steps[axis] += factor * ramp->steps[axis];
    }
    result.offset += ramp->offset * factor;
  }
  return result;
}

MaybeRamp negated(MaybeRamp ramp) {
  if (!ramp) return std::nullopt;
  for (std::int64_t& step : ramp->steps) step = -step;
  ramp->offset = -ramp->offset;
  return ramp;
}

MaybeRamp counted(const Node& node) {
  const Value* const result = node.result();
  if (node.op() == "iota") {
    Ramp ramp = level(result, 0);
    const auto axis = static_cast<std::size_t>(node.attributes().integer("axis"));
    ramp.steps[ramp.steps.size() - 1 - axis] = 1;
    return ramp;
  }
  const MaybeRamp start = real_ramp(node.operand(0));
  const auto step = scalar_constant(node.operand(1));
  if (!start || (step != 1.0 && step != -1.0)) return std::nullopt;
  return Ramp{{step == 1.0 ? 1 : -1}, start->offset};
}

MaybeRamp ramp_of(const Value* value, Numbers numbers) {
  const auto& contents = value->contents();
  if (contents && contents->size() == 1) return level(value, contents->front());
  if (!is_integer(value->dtype())) {
    if (numbers == Numbers::Integers || !is_float(value->dtype())) return std::nullopt;
    const auto number = scalar_constant(value);
    constexpr double kExact = 0x1p53;  // a larger one may be any of several whole numbers
    if (number && std::trunc(*number) == *number && std::abs(*number) < kExact) {
      return level(value, static_cast<std::int64_t>(*number));
    }
  }
  const Node* const node = value->producer();
  if (node == nullptr) return std::nullopt;
  const std::string& op = node->op();
  if (op == "iota" || op == "range") return counted(*node);
  if (op == "cast") {
    // Not of floats to integers, which truncates.
    const bool widens = is_integer(node->operand(0)->dtype()) || is_float(value->dtype());
    return widens ? ramp_of(node->operand(0), numbers) : std::nullopt;
  }
  if (op == "reshape") return reshaped(*node, numbers);
  if (op == "expand") {
    MaybeRamp ramp = ramp_of(node->operand(0), numbers);
    return ramp ? MaybeRamp(expanded_ramp(std::move(*ramp), *node)) : std::nullopt;
  }
  if (op == "add") return combined(*node, 1, numbers);
  if (op == "sub") return combined(*node, -1, numbers);
  if (op == "neg") return negated(ramp_of(node->operand(0), numbers));
  return std::nullopt;
}

}  // namespace

std::optional<Ramp> integer_ramp(const Value* value) {
  return ramp_of(value, Numbers::Integers);
}

std::optional<Ramp> combined_ramp(const Node& node, std::int64_t sign) {
  return combined(node, sign, Numbers::Integers);
}

std::optional<Ramp> real_ramp(const Value* value) {
  return ramp_of(value, Numbers::Reals);
}

Ramp expanded_ramp(Ramp ramp, const Node& expansion) {
  for (std::size_t axis = 0; axis < ramp.steps.size(); ++axis) {
    if (size_from_last(expansion.operand(0), axis) == Dim(1)) ramp.steps[axis] = 0;
  }
  ramp.steps.resize(expansion.result()->shape().size(), 0);
  return ramp;
}

const Dim& size_from_last(const Value* value, std::size_t axis) {
  return value->shape()[value->shape().size() - 1 - axis];
}

bool keeps_last_axes(const Node& view, std::size_t count) {
  const Value* const from = view.operand(0);
  const Value* const to = view.result();
  if (from->shape().size() < count || to->shape().size() < count) return false;
  if (view.op() == "reshape") {
    for (std::size_t axis = count; axis < from->shape().size(); ++axis) {
      if (size_from_last(from, axis) != Dim(1)) return false;
    }
  }
  for (std::size_t axis = 0; axis < count; ++axis) {
    if (size_from_last(from, axis) != size_from_last(to, axis)) return false;
  }
  return true;
}

}  // namespace opweld
