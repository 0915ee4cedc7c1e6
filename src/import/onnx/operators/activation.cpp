// Activation functions, of the standard operators and of com.microsoft.
#include "import/onnx/operators/table.h"

namespace opweld {
namespace {

constexpr std::string_view kMicrosoft = "com.microsoft";

Expected<Values> plain(NodeContext& c) {
  return one(c.builder().op(c.target(), {c.operand(0)}));
}

// Attributes of the same names and defaults.
Expected<Values> with_parameters(NodeContext& c, std::initializer_list<std::string_view> names) {
  Attributes attributes;
  for (const std::string_view name : names) {
    if (c.has_attribute(name)) attributes.set(name, c.real(name, 0));
  }
  return one(c.builder().op(c.target(), {c.operand(0)}, std::move(attributes)));
}

Expected<Values> with_alpha(NodeContext& c) {
  return with_parameters(c, {"alpha"});
}

Expected<Values> hard_sigmoid(NodeContext& c) {
  return with_parameters(c, {"alpha", "beta"});
}

// Defaults differ from those of newer opsets in the last digits only; they are spelled out.
Expected<Values> selu(NodeContext& c) {
  return one(c.builder().op("selu", {c.operand(0)},
                            {{"alpha", c.real("alpha", 1.67326319217681884765625)},
                             {"gamma", c.real("gamma", 1.05070102214813232421875)}}));
}

Expected<Values> shrink(NodeContext& c) {
  return with_parameters(c, {"bias", "lambd"});
}

Expected<Values> prelu(NodeContext& c) {
  return one(c.builder().op("prelu", {c.operand(0), c.operand(1)}));
}

Expected<Values> gelu(NodeContext& c) {
  return one(
      c.builder().op("gelu", {c.operand(0)}, {{"approximate", c.text("approximate", "none")}}));
}

Value* biased(NodeContext& c) {
  return c.has(1) ? c.builder().binary("add", c.operand(0), c.operand(1)) : c.operand(0);
}

Expected<Values> bias_gelu(NodeContext& c) {
  return one(c.builder().op("gelu", {biased(c)}));
}

Expected<Values> fast_gelu(NodeContext& c) {
  return one(c.builder().op("gelu", {biased(c)}, {{"approximate", "tanh"}}));
}

Expected<Values> quick_gelu(NodeContext& c) {
  return one(c.builder().op("swish", {c.operand(0)}, {{"alpha", c.real("alpha", 1.702)}}));
}

Value* swish_of(NodeContext& c) {
  const double alpha = c.real("alpha", 1);
  if (alpha == 1) return c.builder().op("silu", {c.operand(0)});
  return c.builder().op("swish", {c.operand(0)}, {{"alpha", alpha}});
}

Expected<Values> swish(NodeContext& c) {
  return one(swish_of(c));
}

Expected<Values> swiglu(NodeContext& c) {
  return one(c.builder().binary("mul", swish_of(c), c.operand(1)));
}

// ---- along an axis ----

// Before opset 13 the axes from `axis` (1 by default) on are one.
Expected<Values> flattened_softmax(NodeContext& c) {
  Builder& b = c.builder();
  Value* x = c.operand(0);
  OPWELD_TRY(const int axis, c.axis("axis", 1, x->rank() == 0 ? 1 : x->rank()));
  const Shape shape = x->shape();
  const auto split = static_cast<std::size_t>(axis);
  if (split + 1 == shape.size()) return one(b.op(c.target(), {x}, {{"axis", std::int64_t{axis}}}));
  Value* flat = b.reshape(x, {product(shape, 0, split), product(shape, split, shape.size())});
  return one(b.reshape(b.op(c.target(), {flat}, {{"axis", std::int64_t{1}}}), shape));
}

Expected<Values> softmax(NodeContext& c) {
  if (c.opset() < 13) return flattened_softmax(c);
  OPWELD_TRY(const int axis, c.axis("axis", -1, c.operand(0)->rank()));
  return one(c.builder().op(c.target(), {c.operand(0)}, {{"axis", std::int64_t{axis}}}));
}

// 1 at the first of the greatest elements along the axis, else 0.
Value* hardmax_along(Builder& b, Value* x, int axis) {
  const Attributes along{{"axis", std::int64_t{axis}}, {"keepdims", std::int64_t{1}}};
  Value* best = b.op("argmax", {x}, along);
  Shape counted(x->shape().size(), 1);
  counted[static_cast<std::size_t>(axis)] = x->shape()[static_cast<std::size_t>(axis)];
  Value* places =
      b.op("iota", {}, {{"shape", counted}, {"axis", std::int64_t{axis}}, {"dtype", DType::I64}});
  return b.cast(b.binary("eq", places, best), x->dtype());
}

Expected<Values> hardmax(NodeContext& c) {
  Builder& b = c.builder();
  Value* x = c.operand(0);
  OPWELD_TRY(const int axis, c.axis("axis", c.opset() < 13 ? 1 : -1, x->rank()));
  if (c.opset() >= 13) return one(hardmax_along(b, x, axis));
  const Shape shape = x->shape();
  const auto split = static_cast<std::size_t>(axis);
  Value* flat = b.reshape(x, {product(shape, 0, split), product(shape, split, shape.size())});
  OPWELD_CHECK(c.status());
  return one(b.reshape(hardmax_along(b, flat, 1), shape));
}

constexpr OperatorRule kRules[] = {
    {"BiasGelu", bias_gelu, "", 2, 2, kMicrosoft},
    {"Celu", with_alpha, "celu"},
    {"Elu", with_alpha, "elu"},
    {"FastGelu", fast_gelu, "", 1, 2, kMicrosoft},
    {"Gelu", gelu},
    {"Gelu", gelu, "", 1, 1, kMicrosoft},
    {"HardSigmoid", hard_sigmoid, "hard_sigmoid"},
    {"HardSwish", plain, "hard_swish"},
    {"Hardmax", hardmax},
    {"LeakyRelu", with_alpha, "leaky_relu"},
    {"LogSoftmax", softmax, "log_softmax"},
    {"Mish", plain, "mish"},
    {"PRelu", prelu, "", 2, 2},
    {"QuickGelu", quick_gelu, "", 1, 1, kMicrosoft},
    {"Relu", plain, "relu"},
    {"Selu", selu},
    {"Shrink", shrink, "shrink"},
    {"Softmax", softmax, "softmax"},
    {"Softplus", plain, "softplus"},
    {"Softsign", plain, "softsign"},
    {"SwiGLU", swiglu, "", 2, 2},
    {"Swish", swish},
    {"ThresholdedRelu", with_alpha, "thresholded_relu"},
};

}  // namespace

std::span<const OperatorRule> activation_operators() {
  return kRules;
}

}  // namespace opweld
