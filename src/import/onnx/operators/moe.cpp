// MoE of com.microsoft: a mixture of experts from the tokens and the router's logits on.
//
//   p = softmax(router)            the k largest of each token and, with normalize_routing_weights,
//   w = p of those, over their sum
//   y[t] = sum over the chosen e of w[t, e] (fc2_e act(fc1_e x[t]) [* fc3_e x[t]])
//
// Rows are sorted by expert, so that each expert multiplies its own once (grouped_matmul), and
// summed up in the order of the token's choices. Weights are [E, out, in]. The activation swiglu
// has gate and value in fc1: alternating rows (swiglu_fusion 1) or one half after the other (2);
// fc3 is the value where they are apart.
#include "import/onnx/operators/table.h"
#include "ops/sort_by_group.h"

namespace opweld {
namespace {

enum Operand : std::uint8_t { kX, kRouter, kFc1, kBias1, kFc2, kBias2, kFc3, kBias3 };

// How gate and value lie in fc1.
enum class Gate : std::uint8_t { None, Alternating, Halves, Apart };

// A matrix for each expert, as grouped_matmul has it, [E, in, out], and the biases, [E, out] or
// null.
struct Layer {
  Value* weights;
  Value* bias;
};

class Mixture {
 public:
  Mixture(NodeContext& context, Gate gate, std::int64_t k)
      : c_(context), b_(context.builder()), gate_(gate), k_(k) {
    const Shape& shape = c_.operand(kX)->shape();
    tokens_ = ::opweld::product(shape, 0, shape.size() - 1);
    rows_ = tokens_ * k_;
  }

  Expected<Value*> emit() {
    const Shape shape = c_.operand(kX)->shape();
    Value* const x = b_.reshape(c_.operand(kX), {tokens_, shape.back()});
    OPWELD_TRY(const Choice choice, choose());
    // The tokens' choices one after the other, and those in the order of their experts.
    Value* const flat = b_.reshape(choice.experts, {rows_});
    OPWELD_TRY(const GroupedRows rows, sort_by_group(b_, flat, c_.operand(kFc1)->shape()[0]));
    Value* const chosen = b_.scalar(static_cast<double>(k_), DType::I64);
    Value* const token = k_ == 1 ? rows.order : b_.binary("div", rows.order, chosen);
    Value* const sorted = gather_rows(x, token);
    Value* const inner = activated(multiply(sorted, rows.counts, first_layer()));
    Value* const outer = multiply(inner, rows.counts, layer(kFc2, kBias2));
    // Back to where the choices stand.
    Value* const apart = b_.reshape(gather_rows(outer, rows.place), {tokens_, k_, shape.back()});
    Value* const weights = b_.reshape(choice.weights, {tokens_, k_, 1});
    return b_.reshape(sum(b_.binary("mul", apart, weights), 1, false), shape);
  }

 private:
  struct Choice {
    Value* experts;  // [T, k], i64
    Value* weights;  // [T, k]
  };

  Expected<Choice> choose() {
    Value* const p = b_.op("softmax", {c_.operand(kRouter)}, {{"axis", std::int64_t{1}}});
    Value* best = b_.op("top_k", {p}, {{"axis", std::int64_t{1}}, {"k", Shape{k_}}});
    OPWELD_CHECK(c_.status());
    Value* const experts = best->producer()->result(1);
    if (c_.integer("normalize_routing_weights", 0) != 0) {
      best = b_.binary("div", best, sum(best, 1, true));
    }
    return Choice{experts, b_.cast(best, c_.operand(kX)->dtype())};
  }

  Value* gather_rows(Value* x, Value* which) {
    return b_.op("gather", {x, which}, {{"axis", std::int64_t{0}}});
  }

  Value* sum(Value* x, std::int64_t axis, bool keep) {
    return b_.op("reduce_sum", {x},
                 {{"axes", Ints{axis}}, {"keepdims", std::int64_t{keep ? 1 : 0}}});
  }

  Layer layer(Operand weights, Operand bias) {
    return {b_.transpose(c_.operand(weights), {0, 2, 1}), c_.operand(bias)};
  }

  // Gates first, then values, wherever they come from.
  Layer first_layer() {
    if (gate_ == Gate::Alternating) return alternating_layer();
    Layer first = layer(kFc1, kBias1);
    if (gate_ != Gate::Apart) return first;
    const Layer values = layer(kFc3, kBias3);
    const auto beside = [&](Value* a, Value* b, std::int64_t axis) {
      return b_.op("concat", {a, b}, {{"axis", axis}});
    };
    first.weights = beside(first.weights, values.weights, 2);
    if (first.bias != nullptr) first.bias = beside(first.bias, values.bias, 1);
    return first;
  }

  Layer alternating_layer() {
    Value* const weights = c_.operand(kFc1);
    Value* const bias = c_.operand(kBias1);
    const Shape shape = weights->shape();  // [E, 2 I, D]
    const Dim half = floor_div(shape[1], Dim(2));
    Value* const pairs = b_.reshape(weights, {shape[0], half, 2, shape[2]});
    Layer layer{b_.reshape(b_.transpose(pairs, {0, 3, 2, 1}), {shape[0], shape[2], shape[1]}),
                bias};
    if (bias != nullptr) {
      Value* const apart = b_.transpose(b_.reshape(bias, {shape[0], half, 2}), {0, 2, 1});
      layer.bias = b_.reshape(apart, {shape[0], shape[1]});
    }
    return layer;
  }

  Value* multiply(Value* x, Value* counts, const Layer& layer) {
    std::vector<Value*> operands = {x, layer.weights, counts};
    if (layer.bias != nullptr) operands.push_back(layer.bias);
    return b_.op("grouped_matmul", std::move(operands));
  }

  Value* activated(Value* h) {
    if (h == nullptr) return nullptr;  // an error that status() has
    const std::string kind = c_.text("activation_type", "relu");
    if (gate_ == Gate::None) return kind == "identity" ? h : b_.op(kind, {h});
    const Dim half = floor_div(h->shape()[1], Dim(2));
    Value* gate = slice_axis(b_, h, 1, 0, half);
    Value* value = slice_axis(b_, h, 1, half, half);
    if (kind == "silu") return b_.binary("mul", b_.op("silu", {gate}), value);
    const auto number = [&](double x) { return b_.scalar(x, h->dtype()); };
    if (c_.has_attribute("swiglu_limit")) {
      const double limit = c_.real("swiglu_limit", 0);
      gate = b_.binary("min", gate, number(limit));
      value = b_.binary("max", b_.binary("min", value, number(limit)), number(-limit));
    }
    const double alpha = c_.real("activation_alpha", 1);
    const double beta = c_.real("activation_beta", 0);
    if (beta != 0) value = b_.binary("add", value, number(beta));
    if (alpha == 1) return b_.binary("mul", b_.op("silu", {gate}), value);
    Value* const open = b_.op("sigmoid", {b_.binary("mul", gate, number(alpha))});
    return b_.binary("mul", b_.binary("mul", gate, open), value);
  }

  NodeContext& c_;
  Builder& b_;
  Gate gate_;
  std::int64_t k_;
  Dim tokens_, rows_;
};

Expected<Gate> gate_of(NodeContext& c) {
  const std::string kind = c.text("activation_type", "relu");
  const std::int64_t fusion = c.integer("swiglu_fusion", 0);
  if (kind == "swiglu" && fusion == 1 && !c.has(kFc3)) return Gate::Alternating;
  if (kind == "swiglu" && fusion == 2 && !c.has(kFc3)) return Gate::Halves;
  if ((kind == "swiglu" || kind == "silu") && fusion == 0 && c.has(kFc3)) return Gate::Apart;
  const bool plain = kind == "relu" || kind == "silu" || kind == "identity";
  if (plain && !c.has(kFc3)) return Gate::None;
  return fail(
      "activation_type '{}' with swiglu_fusion {} {} fc3_experts_weights; supported are relu, silu "
      "and identity by themselves, swiglu with swiglu_fusion 1 or 2, and silu or swiglu with "
      "fc3_experts_weights",
      kind, fusion, c.has(kFc3) ? "and" : "without");
}

// The matrices of the experts agree with each other and with the rows; what else must is checked as
// the operators are built.
Status check_shapes(NodeContext& c, Gate gate) {
  const int rank = c.operand(kX)->rank();
  if (!c.has(kFc2)) return fail("operand 4 (fc2_experts_weights) is missing");
  if (rank != 2 && rank != 3) return fail("operand 0 (input) has rank {}, not 2 or 3", rank);
  if (c.operand(kRouter)->rank() != 2) return fail("operand 1 (router_probs) is no matrix");
  for (const Operand weights : {kFc1, kFc2, kFc3}) {
    if (!c.has(weights)) continue;
    const int own = c.operand(weights)->rank();
    if (own != 3) return fail("operand {} has rank {}, not 3", static_cast<int>(weights), own);
  }
  for (const Operand bias : {kBias1, kBias2, kBias3}) {
    if (!c.has(bias)) continue;
    const int own = c.operand(bias)->rank();
    if (own != 2) return fail("operand {} has rank {}, not 2", static_cast<int>(bias), own);
  }
  const Dim& wide = c.operand(kFc1)->shape()[1];
  const bool halves = gate == Gate::Alternating || gate == Gate::Halves;
  if (halves && !wide.divisible_by(2)) {
    return fail("fc1_experts_weights has {} rows, no gate and value of equal size", wide);
  }
  if (gate == Gate::Apart && c.has(kBias1) != c.has(kBias3)) {
    return fail("fc1 and fc3 must both have a bias, or neither");
  }
  return {};
}

Expected<Values> moe(NodeContext& c) {
  const std::int64_t k = c.integer("k", 1);
  if (c.integer("use_sparse_mixer", 0) != 0) return fail("use_sparse_mixer is not supported");
  OPWELD_TRY(const Gate gate, gate_of(c));
  OPWELD_CHECK(check_shapes(c, gate));
  constexpr std::int64_t kMost = 1 << 16;  // and no more than there are experts
  if (k < 1 || k > kMost) return fail("k is {}, not in [1, {}]", k, kMost);
  OPWELD_TRY(Value* const result, Mixture(c, gate, k).emit());
  return one(result);
}

constexpr OperatorRule kRules[] = {{"MoE", moe, "", 3, 8, "com.microsoft"}};

}  // namespace

std::span<const OperatorRule> moe_operators() {
  return kRules;
}

}  // namespace opweld
