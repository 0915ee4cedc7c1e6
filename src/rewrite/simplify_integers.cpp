// What is known of positions and of comparisons between them at all sizes: masks that models make
// of positions are often true everywhere, or nothing but a view.
#include <algorithm>
#include <map>

#include "rewrite/index_range.h"
#include "rewrite/match.h"
#include "rewrite/ramp.h"
#include "rewrite/simplify_rules.h"

namespace opweld {

namespace {

// a comparison of positions that is the same everywhere -> true or false
Value* known_everywhere(Builder& build, Node& node) {
  const auto truth = known_truth(node.result());
  if (!truth) return nullptr;
  return build.expand(build.scalar(*truth ? 1 : 0, DType::Bool), node.result()->shape());
}

// The operand beside one that is the same bool everywhere, as large as the result.
Value* beside(Builder& build, Node& node, double neutral) {
  for (int side = 0; side < 2; ++side) {
    if (uniform_value(node.operand(side)) != neutral) continue;
    Value* const other = node.operand(1 - side);
    const Shape& shape = node.result()->shape();
    return other->shape() == shape ? other : build.expand(other, shape);
  }
  return nullptr;
}

// and(x, true) -> x
Value* and_of_true(Builder& build, Node& node) {
  return beside(build, node, 1);
}

// or(x, false) -> x
Value* or_of_false(Builder& build, Node& node) {
  return beside(build, node, 0);
}

// x / c * c
bool is_whole_part(const Value* value, const Value* quotient, double divisor) {
  const Node* const product = made_by(value, "mul");
  const Value* const other = product == nullptr ? nullptr : other_operand(*product, quotient);
  return other != nullptr && scalar_constant(other) == divisor;
}

// x / c - (x - x / c * c < 0) -> x / c: a quotient that is rounded down, of what is never negative
Value* floor_of_place(Builder&, Node& node) {
  Value* const quotient = node.operand(0);
  const Node* const division = made_by(quotient, "div");
  const Node* const correction = made_by(node.operand(1), "cast");
  if (division == nullptr || correction == nullptr || quotient->type() != node.result()->type()) {
    return nullptr;
  }
  const Value* const x = division->operand(0);
  const auto divisor = scalar_constant(division->operand(1));
  if (!divisor || *divisor <= 0 || !index_limit(x)) return nullptr;
  const Node* const below = made_by(correction->operand(0), "lt");
  const Node* const rest = below == nullptr ? nullptr : made_by(below->operand(0), "sub");
  const bool is_rest = rest != nullptr && scalar_constant(below->operand(1)) == 0.0 &&
                       rest->operand(0) == x && is_whole_part(rest->operand(1), quotient, *divisor);
  return is_rest ? quotient : nullptr;
}

// The axis of a tensor of that shape along which the places count from 0 to all of `size`; the rank
// of the shape where there is but one place, and nothing where it is otherwise.
std::optional<std::size_t> axis_counted(const Ramp& places, const Shape& shape, const Dim& size) {
  if (places.offset != Dim(0)) return std::nullopt;
  std::optional<std::size_t> found;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    // The last axis of the places is that of the tuple.
    const std::int64_t step = places.steps[shape.size() - axis];
    if (step == 0 || shape[axis] == Dim(1)) continue;
    if (step != 1 || found || shape[axis] != size) return std::nullopt;
    found = axis;
  }
  if (found) return found;
  return size == Dim(1) ? std::optional(shape.size()) : std::nullopt;
}

// gather_nd(x, the tuples (i, j)) -> x, its axes in another order and with others among them, along
// which it is repeated
Value* gather_of_grid(Builder& build, Node& node) {
  Value* const x = node.operand(0);
  const Node* const places = made_by(node.operand(1), "concat");
  if (places == nullptr || node.attributes().integer("batch_dims", 0) != 0) return nullptr;
  const std::int64_t last = places->result()->rank() - 1;
  const std::int64_t axis = places->attributes().integer("axis");
  if (places->num_operands() != x->rank() || (axis != last && axis != -1)) return nullptr;
  const Shape& shape = node.result()->shape();
  std::multimap<std::size_t, std::int64_t> order;  // axes of x by those of the result
  Shape spread(shape.size(), Dim(1));
  for (int i = 0; i < places->num_operands(); ++i) {
    const Value* const place = places->operand(i);
    const Dim& size = x->shape()[static_cast<std::size_t>(i)];
    if (place->shape().back() != Dim(1)) return nullptr;
    const auto ramp = integer_ramp(place);
    const auto along = ramp ? axis_counted(*ramp, shape, size) : std::nullopt;
    if (!along) return nullptr;
    const bool is_taken = *along < shape.size() && order.contains(*along);
    if (is_taken) return nullptr;  // a diagonal
    order.emplace(*along, i);
    if (*along < shape.size()) spread[*along] = size;
  }
  Ints permutation;
  for (const auto& [to, from] : order) permutation.push_back(from);
  return build.expand(build.reshape(build.transpose(x, permutation), spread), shape);
}

// gather_nd(x, positions as tuples of one) -> gather(x, positions)
Value* gather_of_rows(Builder& build, Node& node) {
  Value* const places = node.operand(1);
  const bool is_row = node.attributes().integer("batch_dims", 0) == 0 &&
                      places->shape().back() == Dim(1) && places->rank() > 1;
  if (!is_row) return nullptr;
  const Shape rows(places->shape().begin(), places->shape().end() - 1);
  return build.op("gather", {node.operand(0), build.reshape(places, rows)},
                  {{"axis", std::int64_t{0}}});
}

}  // namespace

std::span<const SimplifyRule> integer_simplifications() {
  static constexpr SimplifyRule kRules[] = {
      {"eq", known_everywhere},  {"lt", known_everywhere},      {"le", known_everywhere},
      {"gt", known_everywhere},  {"ge", known_everywhere},      {"and", and_of_true},
      {"and", known_everywhere}, {"or", or_of_false},           {"or", known_everywhere},
      {"not", known_everywhere}, {"gather_nd", gather_of_grid}, {"gather_nd", gather_of_rows},
      {"sub", floor_of_place},
  };
  return kRules;
}

}  // namespace opweld
