#include "opweld/functions.h"

#include <cmath>

#include "api/builder_state.h"
#include "api/convert.h"

namespace opweld {

using detail::BuilderAccess;

namespace {

// Of the builder that the first operand present belongs to; absent ones if none is.
std::vector<GraphTensor> apply_for_results(std::string_view op, std::size_t count,
                                           const std::vector<GraphTensor>& operands,
                                           const AttributeList& attributes) {
  for (const GraphTensor& operand : operands) {
    if (const auto& state = BuilderAccess::state(operand)) {
      return append_operator(state, op, count, operands, attributes);
    }
  }
  return std::vector<GraphTensor>(count);
}

}  // namespace

GraphTensor apply(std::string_view op, const std::vector<GraphTensor>& operands,
                  const AttributeList& attributes) {
  return apply_for_results(op, 1, operands, attributes).front();
}

namespace {

// `value` as a constant of the tensor's dtype, in its graph.
GraphTensor scalar_like(const GraphTensor& tensor, double value) {
  const auto& state = BuilderAccess::state(tensor);
  return state == nullptr ? GraphTensor() : append_scalar(state, value, tensor.dtype());
}

// The tensor's builder has failed, with this message.
GraphTensor failed(const GraphTensor& tensor, std::string message) {
  const auto& state = BuilderAccess::state(tensor);
  if (state == nullptr) return {};
  if (state->usable()) state->fail_with({ErrorKind::Usage, std::move(message)});
  return BuilderAccess::invalid(state);
}

}  // namespace

GraphTensor add(const GraphTensor& a, const GraphTensor& b) {
  return apply("add", {a, b});
}
GraphTensor sub(const GraphTensor& a, const GraphTensor& b) {
  return apply("sub", {a, b});
}
GraphTensor mul(const GraphTensor& a, const GraphTensor& b) {
  return apply("mul", {a, b});
}
GraphTensor div(const GraphTensor& a, const GraphTensor& b) {
  return apply("div", {a, b});
}
GraphTensor pow(const GraphTensor& a, const GraphTensor& b) {
  return apply("pow", {a, b});
}
GraphTensor minimum(const GraphTensor& a, const GraphTensor& b) {
  return apply("min", {a, b});
}
GraphTensor maximum(const GraphTensor& a, const GraphTensor& b) {
  return apply("max", {a, b});
}
GraphTensor negate(const GraphTensor& x) {
  return apply("neg", {x});
}
GraphTensor abs(const GraphTensor& x) {
  return apply("abs", {x});
}

GraphTensor operator+(const GraphTensor& a, const GraphTensor& b) {
  return add(a, b);
}
GraphTensor operator-(const GraphTensor& a, const GraphTensor& b) {
  return sub(a, b);
}
GraphTensor operator*(const GraphTensor& a, const GraphTensor& b) {
  return mul(a, b);
}
GraphTensor operator/(const GraphTensor& a, const GraphTensor& b) {
  return div(a, b);
}
GraphTensor operator-(const GraphTensor& x) {
  return negate(x);
}
GraphTensor operator+(const GraphTensor& a, double b) {
  return add(a, scalar_like(a, b));
}
GraphTensor operator-(const GraphTensor& a, double b) {
  return sub(a, scalar_like(a, b));
}
GraphTensor operator*(const GraphTensor& a, double b) {
  return mul(a, scalar_like(a, b));
}
GraphTensor operator/(const GraphTensor& a, double b) {
  return div(a, scalar_like(a, b));
}
GraphTensor operator+(double a, const GraphTensor& b) {
  return add(scalar_like(b, a), b);
}
GraphTensor operator-(double a, const GraphTensor& b) {
  return sub(scalar_like(b, a), b);
}
GraphTensor operator*(double a, const GraphTensor& b) {
  return mul(scalar_like(b, a), b);
}
GraphTensor operator/(double a, const GraphTensor& b) {
  return div(scalar_like(b, a), b);
}

GraphTensor exp(const GraphTensor& x) {
  return apply("exp", {x});
}
GraphTensor log(const GraphTensor& x) {
  return apply("log", {x});
}
GraphTensor sqrt(const GraphTensor& x) {
  return apply("sqrt", {x});
}
GraphTensor rsqrt(const GraphTensor& x) {
  return apply("rsqrt", {x});
}
GraphTensor sin(const GraphTensor& x) {
  return apply("sin", {x});
}
GraphTensor cos(const GraphTensor& x) {
  return apply("cos", {x});
}
GraphTensor tanh(const GraphTensor& x) {
  return apply("tanh", {x});
}
GraphTensor erf(const GraphTensor& x) {
  return apply("erf", {x});
}
GraphTensor sigmoid(const GraphTensor& x) {
  return apply("sigmoid", {x});
}
GraphTensor relu(const GraphTensor& x) {
  return apply("relu", {x});
}
GraphTensor silu(const GraphTensor& x) {
  return apply("silu", {x});
}
GraphTensor gelu(const GraphTensor& x, GeluForm form) {
  return apply("gelu", {x}, {{"approximate", form == GeluForm::Tanh ? "tanh" : "none"}});
}

GraphTensor equal(const GraphTensor& a, const GraphTensor& b) {
  return apply("eq", {a, b});
}
GraphTensor less(const GraphTensor& a, const GraphTensor& b) {
  return apply("lt", {a, b});
}
GraphTensor greater(const GraphTensor& a, const GraphTensor& b) {
  return apply("gt", {a, b});
}
GraphTensor select(const GraphTensor& condition, const GraphTensor& a, const GraphTensor& b) {
  return apply("select", {condition, a, b});
}
GraphTensor cast(const GraphTensor& x, DType dtype) {
  return apply("cast", {x}, {{"to", dtype}});
}

GraphTensor matmul(const GraphTensor& a, const GraphTensor& b) {
  return apply("matmul", {a, b});
}

GraphTensor linear(const GraphTensor& x, const GraphTensor& weight, const GraphTensor& bias) {
  const GraphTensor product = matmul(x, weight);
  const bool has_bias = BuilderAccess::state(bias) != nullptr;
  return has_bias ? add(product, bias) : product;
}

GraphTensor grouped_matmul(const GraphTensor& x, const GraphTensor& weights,
                           const GraphTensor& bounds, const GraphTensor& bias, RowBounds kind) {
  return apply("grouped_matmul", {x, weights, bounds, bias},
               {{"cumulative", kind == RowBounds::Ends}});
}

namespace {

// Result 0, and the log-sum-exp if it is asked for.
std::vector<GraphTensor> attention_results(const GraphTensor& q, const GraphTensor& k,
                                           const GraphTensor& v, const AttentionOptions& options,
                                           bool with_lse) {
  const std::size_t count = with_lse ? 2 : 1;
  std::optional<double> scale = options.scale;
  if (!scale && q.rank() > 0) {
    const auto head = q.sizes().back().constant();
    if (!head || *head == 0) {
      return {count,
              failed(q, fmt::format("attention: the head size of q {} is no number, so a scale "
                                    "must be given",
                                    q.type()))};
    }
    scale = 1 / std::sqrt(static_cast<double>(*head));
  }
  constexpr const char* kCausal[] = {"none", "top_left", "bottom_right"};
  if (options.causal > Causal::BottomRight) {
    return {count, failed(q, "attention: no such causal mask")};
  }
  AttributeList attributes = {{"scale", scale.value_or(1)},
                              {"causal", kCausal[static_cast<int>(options.causal)]},
                              {"window_left", options.window_left},
                              {"window_right", options.window_right},
                              {"softcap", options.softcap}};
  if (with_lse) attributes.emplace_back("lse", true);
  return apply_for_results(
      "attention", count,
      {q, k, v, options.mask, options.lengths, options.slopes, options.block_table}, attributes);
}

}  // namespace

GraphTensor attention(const GraphTensor& q, const GraphTensor& k, const GraphTensor& v,
                      const AttentionOptions& options) {
  return attention_results(q, k, v, options, false).front();
}

AttentionWithLse attention_with_lse(const GraphTensor& q, const GraphTensor& k,
                                    const GraphTensor& v, const AttentionOptions& options) {
  const auto results = attention_results(q, k, v, options, true);
  return {results[0], results[1]};
}

GraphTensor rotary_embedding(const GraphTensor& x, const GraphTensor& cos, const GraphTensor& sin,
                             bool interleaved) {
  return apply("rope", {x, cos, sin}, {{"interleaved", interleaved}});
}

GraphTensor softmax(const GraphTensor& x, std::int64_t axis) {
  return apply("softmax", {x}, {{"axis", axis}});
}
GraphTensor log_softmax(const GraphTensor& x, std::int64_t axis) {
  return apply("log_softmax", {x}, {{"axis", axis}});
}
GraphTensor rms_norm(const GraphTensor& x, const GraphTensor& scale, double epsilon,
                     std::int64_t axis) {
  return apply("rms_norm", {x, scale}, {{"epsilon", epsilon}, {"axis", axis}});
}
GraphTensor layer_norm(const GraphTensor& x, const GraphTensor& scale, const GraphTensor& bias,
                       double epsilon, std::int64_t axis) {
  return apply("layer_norm", {x, scale, bias}, {{"epsilon", epsilon}, {"axis", axis}});
}

namespace {

GraphTensor reduce(std::string_view op, const GraphTensor& x, const std::vector<std::int64_t>& axes,
                   bool keep_axes) {
  AttributeList attributes = {{"keepdims", keep_axes}};
  if (!axes.empty()) attributes.emplace_back("axes", axes);
  return apply(op, {x}, attributes);
}

}  // namespace

GraphTensor reduce_sum(const GraphTensor& x, const std::vector<std::int64_t>& axes,
                       bool keep_axes) {
  return reduce("reduce_sum", x, axes, keep_axes);
}
GraphTensor reduce_mean(const GraphTensor& x, const std::vector<std::int64_t>& axes,
                        bool keep_axes) {
  return reduce("reduce_mean", x, axes, keep_axes);
}
GraphTensor reduce_max(const GraphTensor& x, const std::vector<std::int64_t>& axes,
                       bool keep_axes) {
  return reduce("reduce_max", x, axes, keep_axes);
}
GraphTensor reduce_min(const GraphTensor& x, const std::vector<std::int64_t>& axes,
                       bool keep_axes) {
  return reduce("reduce_min", x, axes, keep_axes);
}

GraphTensor reshape(const GraphTensor& x, const std::vector<Size>& sizes) {
  return apply("reshape", {x}, {{"shape", sizes}});
}

GraphTensor transpose(const GraphTensor& x, const std::vector<std::int64_t>& permutation) {
  std::vector<std::int64_t> axes = permutation;
  if (axes.empty()) {
    for (std::int64_t axis = x.rank() - 1; axis >= 0; --axis) axes.push_back(axis);
  }
  return apply("transpose", {x}, {{"permutation", axes}});
}

GraphTensor expand(const GraphTensor& x, const std::vector<Size>& sizes) {
  return apply("expand", {x}, {{"shape", sizes}});
}

GraphTensor slice(const GraphTensor& x, const std::vector<Size>& starts,
                  const std::vector<Size>& sizes) {
  const std::vector<std::int64_t> steps(sizes.size(), 1);
  return apply("slice", {x}, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}});
}

GraphTensor concat(const std::vector<GraphTensor>& parts, std::int64_t axis) {
  return apply("concat", parts, {{"axis", axis}});
}

GraphTensor gather(const GraphTensor& x, const GraphTensor& indices, std::int64_t axis) {
  return apply("gather", {x, indices}, {{"axis", axis}});
}

}  // namespace opweld
