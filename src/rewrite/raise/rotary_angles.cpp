#include "rewrite/raise/rotary_angles.h"

#include <algorithm>

#include "ops/builder.h"
#include "rewrite/match.h"

namespace opweld {

namespace {

// The shape with the last axis halved.
Shape with_pairs(const Shape& shape) {
  Shape result = shape;
  result.back() = floor_div(shape.back(), 2);
  return result;
}

// Whether the node is an expansion or a concatenation that makes two of the one element of the last
// axis of its operand: [..., P, 1] -> [..., P, 2].
Value* doubled_column(const Value* value) {
  const Node* const node = value->producer();
  if (node == nullptr || value->rank() == 0 || value->shape().back() != Dim(2)) return nullptr;
  Value* const column = node->operand(0);
  if (column->rank() != value->rank() || column->shape().back() != Dim(1)) return nullptr;
  Shape doubled = column->shape();
  doubled.back() = 2;
  if (doubled != value->shape()) return nullptr;
  if (node->op() == "expand") return column;
  const bool is_pair =
      node->op() == "concat" && node->num_operands() == 2 && node->operand(1) == column;
  return is_pair ? column : nullptr;
}

}  // namespace

Value* RotaryAngles::of_pairs(Value* angles, Node* before) {
  if (const auto known = known_.find(angles); known != known_.end()) return known->second;
  const bool even = angles->rank() > 0 && angles->shape().back().divisible_by(2);
  Value* const pairs = even ? compute(angles, before) : nullptr;
  const bool sound = pairs != nullptr && pairs->shape() == with_pairs(angles->shape());
  return known_[angles] = sound ? pairs : nullptr;
}

Value* RotaryAngles::compute(Value* angles, Node* before) {
  const Node* const node = angles->producer();
  if (node == nullptr || node->num_results() != 1) return nullptr;
  if (node->op() == "constant") return pairs_of_constant(angles, before);
  if (Value* const once = repeated(*node, before)) return once;
  return through(*node, before);
}

Value* RotaryAngles::pairs_of_constant(const Value* angles, Node* before) {
  const Tensor& tensor = angles->producer()->attributes().tensor("value");
  Sizes sizes = tensor.sizes();
  const std::int64_t pairs = sizes.back() / 2;
  sizes.back() = pairs;
  auto once = Tensor::allocate(tensor.dtype(), std::move(sizes));
  if (!once || pairs == 0 || !is_float(tensor.dtype())) return nullptr;
  const bool halves = layout_ == RotaryLayout::Halves;
  for (std::int64_t i = 0; i < once->num_elements(); ++i) {
    const std::int64_t row = i / pairs * 2 * pairs;
    const std::int64_t pair = i % pairs;
    const double first = tensor.get_double(row + (halves ? pair : 2 * pair));
    const double second = tensor.get_double(row + (halves ? pair + pairs : 2 * pair + 1));
    if (first != second) return nullptr;
    once->set_double(i, first);
  }
  return Builder(graph_, before, angles->producer()->source()).constant(std::move(*once));
}

// The value that the node holds twice.
Value* RotaryAngles::repeated(const Node& node, Node* before) {
  const auto last = static_cast<std::size_t>(node.result()->rank() - 1);
  if (layout_ == RotaryLayout::Halves) {
    if (node.op() == "concat") {
      const bool twice = node.num_operands() == 2 && node.operand(0) == node.operand(1);
      const bool along_last = node.attributes().integer("axis") == static_cast<std::int64_t>(last);
      return twice && along_last ? node.operand(0) : nullptr;
    }
    if (node.op() != "tile") return nullptr;
    const Shape& repeats = node.attributes().shape("repeats");
    for (std::size_t axis = 0; axis < repeats.size(); ++axis) {
      if (repeats[axis] != Dim(axis == last ? 2 : 1)) return nullptr;
    }
    return node.operand(0);
  }
  if (node.op() != "reshape") return nullptr;
  Value* const column = doubled_column(node.operand(0));
  if (column == nullptr) return nullptr;
  // [..., P, 2] -> [..., 2 P], whatever the axes before become.
  const Shape& from = column->shape();
  if (from.size() < 2 || from[from.size() - 2] * 2 != node.result()->shape().back()) return nullptr;
  return Builder(graph_, before, node.source()).reshape(column, with_pairs(node.result()->shape()));
}

// The node's function of the pairs of its operand.
Value* RotaryAngles::through(const Node& node, Node* before) {
  if (op_def(node).trait == FusionTrait::Pointwise) return through_pointwise(node, before);
  const Value* const operand = node.operand(0);
  const Shape& shape = node.result()->shape();
  if (operand->rank() == 0 || operand->shape().back() != shape.back()) return nullptr;
  const std::int64_t last = operand->rank() - 1;
  Attributes attributes = node.attributes();
  if (node.op() == "reshape" || node.op() == "expand") {
    attributes.set("shape", with_pairs(shape));
  } else if (node.op() == "gather") {
    if (attributes.integer("axis") == last || attributes.integer("axis") == -1) return nullptr;
  } else if (node.op() == "slice") {
    // All of the last axis is read, in order.
    if (attributes.ints("steps").back() != 1) return nullptr;
    attributes.set("sizes", with_pairs(shape));
  } else if (node.op() == "transpose") {
    if (attributes.ints("permutation").back() != last) return nullptr;
  } else {
    return nullptr;
  }
  Value* const pairs = of_pairs(node.operand(0), before);
  if (pairs == nullptr) return nullptr;
  std::vector<Value*> operands(node.operands().begin(), node.operands().end());
  operands[0] = pairs;
  return Builder(graph_, before, node.source())
      .op(node.op(), std::move(operands), std::move(attributes));
}

Value* RotaryAngles::through_pointwise(const Node& node, Node* before) {
  std::vector<Value*> operands;
  bool halved = false;
  for (Value* operand : node.operands()) {
    // One element for all of the last axis serves both of a pair.
    const bool is_shared =
        operand == nullptr || operand->rank() == 0 || operand->shape().back() == Dim(1);
    Value* const pairs = is_shared ? operand : of_pairs(operand, before);
    if (!is_shared && pairs == nullptr) return nullptr;
    halved = halved || !is_shared;
    operands.push_back(pairs);
  }
  if (!halved) return nullptr;
  return Builder(graph_, before, node.source())
      .op(node.op(), std::move(operands), node.attributes());
}

}  // namespace opweld
