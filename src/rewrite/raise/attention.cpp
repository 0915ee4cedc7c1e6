#include "rewrite/raise/attention.h"

#include <cmath>
#include <limits>

#include "ops/builder.h"
#include "rewrite/match.h"

namespace opweld {

namespace {

// What was collected on the way from the softmax down to the product of queries and keys.
struct Scores {
  Node* product = nullptr;
  double scale = 1;
  Value* mask = nullptr;
};

// Follows the scores from `value` to a matmul, through scales, one mask and nothing else.
bool find_scores(Value* value, Scores& scores) {
  Node* const node = value->producer();
  if (node == nullptr || !has_one_reader(value)) return false;
  if (node->op() == "matmul") {
    scores.product = node;
    return true;
  }
  double factor = 1;
  if (Value* const scaled = scaled_operand(*node, factor)) {
    scores.scale *= factor;
    return find_scores(scaled, scores);
  }
  // A scale around the mask would scale the mask as well.
  if (scores.mask != nullptr || scores.scale != 1) return false;
  if (node->op() == "add") {
    for (int side = 0; side < 2; ++side) {
      Scores inner;
      if (node->operand(side)->shape() != value->shape()) continue;
      if (!find_scores(node->operand(side), inner) || inner.mask != nullptr) continue;
      scores = inner;
      scores.mask = node->operand(1 - side);
      return true;
    }
  }
  if (node->op() == "select") {
    const auto hidden = scalar_constant(node->operand(2));
    const bool hides = hidden && *hidden == -std::numeric_limits<double>::infinity();
    if (!hides || node->operand(1)->shape() != value->shape()) return false;
    if (!find_scores(node->operand(1), scores) || scores.mask != nullptr) return false;
    scores.mask = node->operand(0);
    return true;
  }
  return false;
}

// Takes scalar factors off a value, into `scale`.
Value* without_scale(Value* value, double& scale) {
  for (;;) {
    Node* const node = value->producer();
    double factor = 1;
    Value* const inner = node == nullptr ? nullptr : scaled_operand(*node, factor);
    if (inner == nullptr || inner->shape() != value->shape()) return value;
    scale *= factor;
    value = inner;
  }
}

// [B, Hkv, T, D] if the value is that with every head repeated: reshape to [B, Hkv, 1, T, D],
// expand to [B, Hkv, G, T, D], reshape to [B, Hkv * G, T, D]. Else the value itself.
Value* without_repeated_heads(Value* value) {
  const Node* const merged = made_by(value, "reshape");
  const Node* const repeated = merged == nullptr ? nullptr : made_by(merged->operand(0), "expand");
  const Node* const split =
      repeated == nullptr ? nullptr : made_by(repeated->operand(0), "reshape");
  if (split == nullptr) return value;
  Value* const heads = split->operand(0);
  if (heads->rank() != 4 || repeated->result()->rank() != 5) return value;
  const Shape& from = heads->shape();
  const Shape& each = repeated->result()->shape();
  const Shape one_copy = {from[0], from[1], 1, from[2], from[3]};
  const Shape copies = {from[0], from[1], each[2], from[2], from[3]};
  const Shape result = {from[0], from[1] * each[2], from[2], from[3]};
  const bool matches =
      split->result()->shape() == one_copy && each == copies && value->shape() == result;
  return matches ? heads : value;
}

// The softmax runs over the keys and nothing else reads its result.
bool is_weights(const Node& softmax) {
  const std::int64_t axis = softmax.attributes().integer("axis", -1);
  const bool last = axis == -1 || axis == softmax.result()->rank() - 1;
  return last && has_one_reader(softmax.result());
}

Status raise_at(Graph& graph, Node& output) {
  Node* const softmax = made_by(output.operand(0), "softmax");
  if (softmax == nullptr || output.result()->rank() != 4 || !is_weights(*softmax)) return {};
  Scores scores;
  if (!find_scores(softmax->operand(0), scores)) return {};
  Value* const q_scaled = scores.product->operand(0);
  Value* const k_transposed = scores.product->operand(1);
  Value* const v_full = output.operand(1);
  const Shape& shape = scores.product->result()->shape();
  // The batch axes of all three agree: nothing is broadcast.
  for (std::size_t axis = 0; axis < 2; ++axis) {
    for (const Value* operand : {q_scaled, k_transposed, v_full}) {
      if (operand->rank() != 4 || !(operand->shape()[axis] == shape[axis])) return {};
    }
  }
  if (scores.mask != nullptr && !spreads_over(scores.mask, shape)) return {};
  if (scores.mask != nullptr && scores.mask->dtype() != DType::Bool &&
      scores.mask->dtype() != q_scaled->dtype()) {
    return {};
  }

  double scale = scores.scale;
  Value* const q = without_scale(q_scaled, scale);
  Builder builder(graph, &output, raised_source(output, "Attention"));
  Builder helper(graph, &output, raised_source(output, "Transpose"));
  Value* k = nullptr;
  Value* const keys = without_scale(k_transposed, scale);
  if (Node* const transpose = made_by(keys, "transpose");
      transpose && swaps_last_axes(*transpose)) {
    k = without_repeated_heads(without_scale(transpose->operand(0), scale));
  } else {
    k = helper.transpose(keys, {0, 1, 3, 2});
  }
  Value* v = without_repeated_heads(v_full);
  // Heads are repeated on both or on neither.
  if (!(k->shape()[1] == v->shape()[1])) {
    v = v_full;
    k = helper.transpose(keys, {0, 1, 3, 2});
  }
  std::vector<Value*> operands = {q, k, v};
  if (scores.mask != nullptr) operands.push_back(scores.mask);
  Value* const attention =
      builder.op("attention", std::move(operands), {{"scale", scale}, {"causal", "none"}});
  OPWELD_CHECK(helper.status());
  OPWELD_CHECK(builder.status());
  replace_by_raised(graph, output.result(), attention);
  return {};
}

}  // namespace

Status raise_attention(Graph& graph) {
  for (Node* node : graph.nodes_in_order()) {
    if (node->op() == "matmul") OPWELD_CHECK(raise_at(graph, *node));
  }
  return {};
}

}  // namespace opweld
