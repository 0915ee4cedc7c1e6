#include "rewrite/raise/repeated_heads.h"

#include <algorithm>

#include "rewrite/match.h"

namespace opweld {

namespace {

// The operand that the node repeats along `axis`, of one element there, and along no other.
Value* repeated_operand(const Value* value, std::size_t axis) {
  const Node* const node = value->producer();
  if (node == nullptr || !stays_on_its_stream(value)) return nullptr;
  if (node->op() != "expand" && node->op() != "tile" && node->op() != "concat") return nullptr;
  if (node->op() == "concat") {
    const bool along = node->attributes().integer("axis") == static_cast<std::int64_t>(axis);
    const bool same = std::all_of(node->operands().begin(), node->operands().end(),
                                  [&](const Value* each) { return each == node->operand(0); });
    if (!along || !same) return nullptr;
  }
  Value* const once = node->operand(0);
  Shape shape = once->shape();
  if (shape.size() <= axis || shape[axis] != Dim(1)) return nullptr;
  shape[axis] = value->shape()[axis];
  return shape == value->shape() ? once : nullptr;
}

// By way of [B, Hkv, G, T, D].
Value* merged_operand(const Value* value) {
  const Node* const merged = made_by(value, "reshape");
  if (merged == nullptr || merged->operand(0)->rank() != 5) return nullptr;
  const Shape& copies = merged->operand(0)->shape();
  const Shape result = {copies[0], copies[1] * copies[2], copies[3], copies[4]};
  Value* const once = repeated_operand(merged->operand(0), 2);
  const Node* const split = once == nullptr ? nullptr : made_by(once, "reshape");
  if (split == nullptr || value->shape() != result) return nullptr;
  Value* const heads = split->operand(0);
  const Shape each = {copies[0], copies[1], copies[3], copies[4]};
  return heads->shape() == each ? heads : nullptr;
}

Value* gathered_operand(const Value* value) {
  const Node* const gather = made_by(value, "gather");
  if (gather == nullptr || gather->attributes().integer("axis") != 1) return nullptr;
  const Node* const indices = made_by(gather->operand(1), "constant");
  Value* const heads = gather->operand(0);
  const auto count = heads->rank() == 4 ? heads->shape()[1].constant() : std::nullopt;
  if (indices == nullptr || !count || *count == 0) return nullptr;
  const Tensor& tensor = indices->attributes().tensor("value");
  if (tensor.rank() != 1 || tensor.num_elements() % *count != 0) return nullptr;
  const std::int64_t repeats = tensor.num_elements() / *count;
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (tensor.get_int(i) != i / repeats) return nullptr;
  }
  return heads;
}

}  // namespace

Value* without_repeated_heads(Value* value) {
  if (value->rank() != 4) return value;
  if (Value* const heads = merged_operand(value)) return heads;
  if (Value* const head = repeated_operand(value, 1)) return head;
  if (Value* const heads = gathered_operand(value)) return heads;
  return value;
}

}  // namespace opweld
