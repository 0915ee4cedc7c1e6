#include "rewrite/raise/alibi_bias.h"

#include <cmath>

#include "rewrite/match.h"
#include "rewrite/ramp.h"

namespace opweld {

namespace {

// slopes * factor * ramp, or the same of the ramp's absolute value; without slopes they are 1,
// without a ramp it is 1.
struct Product {
  Value* slopes = nullptr;
  double factor = 1;
  std::optional<Ramp> ramp;
  bool is_absolute = false;
};

using MaybeProduct = std::optional<Product>;

MaybeProduct product_of(Value* value);

// Whether there is one for each head at most, whatever the batch element, query and key.
bool is_per_head(const Value* value) {
  if (!is_float(value->dtype()) || value->rank() < 3) return false;
  for (std::size_t axis = 0; axis < value->shape().size(); ++axis) {
    if (axis != 2 && size_from_last(value, axis) != Dim(1)) return false;
  }
  return true;
}

MaybeProduct multiplied(const Product& a, const Product& b) {
  if ((a.slopes != nullptr && b.slopes != nullptr) || (a.ramp && b.ramp)) return std::nullopt;
  Product product = a.ramp ? a : b;
  const Product& other = a.ramp ? b : a;
  product.factor *= other.factor;
  if (other.slopes != nullptr) product.slopes = other.slopes;
  return product;
}

MaybeProduct product_of_node(const Node& node) {
  const std::string& op = node.op();
  double factor = 1;
  if (Value* const operand = scaled_operand(node, factor)) {
    MaybeProduct product = product_of(operand);
    if (product) product->factor *= factor;
    return product;
  }
  if (op == "mul") {
    const MaybeProduct a = product_of(node.operand(0));
    const MaybeProduct b = a ? product_of(node.operand(1)) : std::nullopt;
    return b ? multiplied(*a, *b) : std::nullopt;
  }
  if (op == "neg") {
    MaybeProduct product = product_of(node.operand(0));
    if (product) product->factor = -product->factor;
    return product;
  }
  if (op == "abs") {
    MaybeProduct product = product_of(node.operand(0));
    if (!product || product->slopes != nullptr || !product->ramp) return std::nullopt;
    product->factor = std::abs(product->factor);
    product->is_absolute = true;
    return product;
  }
  if (op == "cast" && is_float(node.result()->dtype())) return product_of(node.operand(0));
  if (op == "expand") {
    MaybeProduct product = product_of(node.operand(0));
    if (product && product->ramp) product->ramp = expanded_ramp(*product->ramp, node);
    return product;
  }
  const bool is_kept = op == "reshape" && keeps_last_axes(node, 3);
  return is_kept ? product_of(node.operand(0)) : std::nullopt;
}

MaybeProduct product_of(Value* value) {
  if (auto ramp = real_ramp(value)) return Product{.ramp = std::move(ramp)};
  if (is_per_head(value)) return Product{.slopes = value, .ramp = std::nullopt};
  const Node* const node = value->producer();
  return node == nullptr ? std::nullopt : product_of_node(*node);
}

// The step of a ramp over [.., queries, keys] from key to key; 0 if it goes by other axes.
std::int64_t key_step(const Ramp& ramp) {
  for (std::size_t axis = 2; axis < ramp.steps.size(); ++axis) {
    if (ramp.steps[axis] != 0) return 0;
  }
  return ramp.steps.empty() ? 0 : ramp.steps[0];
}

// Of |ramp| as far as `causal` lets keys be seen, those at t <= s + offset: the ramp's sign there;
// 0 if it has both.
int visible_sign(const Ramp& ramp, std::string_view causal, const Dim& queries, const Dim& keys) {
  if (causal == "none" || ramp.steps.size() < 2) return 0;
  const std::int64_t step = ramp.steps[0];
  if ((step != 1 && step != -1) || ramp.steps[1] != -step) return 0;
  const Dim offset = causal == "top_left" ? Dim(0) : keys - queries;
  // step (t - s) + ramp.offset, which is 0 at t = s + offset.
  return ramp.offset == -step * offset ? static_cast<int>(-step) : 0;
}

}  // namespace

std::optional<AlibiBias> match_alibi(Value* bias, std::string_view causal, const Dim& queries,
                                     const Dim& keys) {
  if (!is_float(bias->dtype()) || bias->rank() < 3 || size_from_last(bias, 0) != keys) {
    return std::nullopt;
  }
  if (auto constant = match_constant_alibi(bias, queries, keys)) return constant;
  const MaybeProduct product = product_of(bias);
  if (!product || product->slopes == nullptr || !product->ramp) return std::nullopt;
  const std::int64_t step = key_step(*product->ramp);
  double factor = product->factor * static_cast<double>(step);
  if (product->is_absolute) factor *= visible_sign(*product->ramp, causal, queries, keys);
  if (factor == 0 || !std::isfinite(factor)) return std::nullopt;
  return AlibiBias{.slopes = product->slopes, .factor = factor};
}

Value* alibi_slopes(Builder& builder, const AlibiBias& bias, const Dim& heads) {
  Value* slopes = bias.slopes == nullptr ? builder.constant(*bias.numbers) : bias.slopes;
  if (bias.factor != 1) {
    slopes = builder.cast(slopes, compute_dtype(slopes->dtype()));
    slopes = builder.binary("mul", slopes, builder.scalar(bias.factor, slopes->dtype()));
  }
  const Dim given = bias.slopes == nullptr ? slopes->shape()[0] : size_from_last(bias.slopes, 2);
  if (slopes->rank() != 1) slopes = builder.reshape(slopes, {given});
  return given == heads ? slopes : builder.expand(slopes, {heads});
}

}  // namespace opweld
