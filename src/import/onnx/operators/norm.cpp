// Normalisations, of the standard operators and of com.microsoft.
#include <numeric>

#include "import/onnx/operators/table.h"
#include "ops/infer_helpers.h"

namespace opweld {
namespace {

constexpr std::string_view kMicrosoft = "com.microsoft";
constexpr double kEpsilon = 9.999999747378752e-06;  // 1e-5 as a float, as files have it

Attributes along(Ints axes) {
  return {{"axes", std::move(axes)}, {"keepdims", std::int64_t{1}}};
}

// [C] as [C, 1, ..., 1]: along the channels of x, its axis 1.
Value* along_channels(Builder& b, Value* parameter, const Value* x) {
  Shape shape(static_cast<std::size_t>(x->rank() - 1), 1);
  shape[0] = x->shape()[1];
  return b.reshape(parameter, std::move(shape));
}

// Mean over the axes from `axis` on, and 1 / sqrt(variance + epsilon), as the second and third
// results of LayerNormalization: in the compute type.
std::pair<Value*, Value*> statistics(Builder& b, Value* x, int axis, double epsilon) {
  Ints axes(static_cast<std::size_t>(x->rank() - axis));
  std::iota(axes.begin(), axes.end(), axis);
  const DType dtype = compute_dtype(x->dtype());
  Value* wide = b.cast(x, dtype);
  Value* mean = b.op("reduce_mean", {wide}, along(axes));
  Value* centred = b.binary("sub", wide, mean);
  Value* variance = b.op("reduce_mean", {b.binary("mul", centred, centred)}, along(axes));
  return {mean, b.op("rsqrt", {b.binary("add", variance, b.scalar(epsilon, dtype))})};
}

Expected<Values> layer_norm(NodeContext& c) {
  Builder& b = c.builder();
  Value* x = c.operand(0);
  OPWELD_TRY(const int axis, c.axis("axis", -1, x->rank()));
  const double epsilon = c.real("epsilon", kEpsilon);
  Values results{b.op("layer_norm", {x, c.operand(1), c.operand(2)},
                      {{"axis", std::int64_t{axis}}, {"epsilon", epsilon}})};
  if (c.wants(1) || c.wants(2)) {
    const auto [mean, deviation] = statistics(b, x, axis, epsilon);
    results.insert(results.end(), {mean, deviation});
  }
  return results;
}

Expected<Values> rms_norm(NodeContext& c) {
  OPWELD_TRY(const int axis, c.axis("axis", -1, c.operand(0)->rank()));
  return one(
      c.builder().op("rms_norm", {c.operand(0), c.operand(1)},
                     {{"axis", std::int64_t{axis}}, {"epsilon", c.real("epsilon", kEpsilon)}}));
}

// x + skip (+ bias), normalised over the last axis; the sum is the fourth result.
Expected<Values> skip_norm(NodeContext& c) {
  Builder& b = c.builder();
  const bool centred = c.target() == "layer_norm";
  Value* bias = c.operand(centred ? 4 : 3);
  Value* sum = b.binary("add", c.operand(0), c.operand(1));
  if (bias != nullptr) sum = b.binary("add", sum, bias);
  Values operands{sum, c.operand(2)};
  if (centred) operands.push_back(c.operand(3));
  Value* normed = b.op(c.target(), operands,
                       {{"axis", std::int64_t{-1}}, {"epsilon", c.real("epsilon", kEpsilon)}});
  return Values{normed, nullptr, nullptr, sum};
}

// Before opset 21 scale and bias are given for each group, not for each channel.
Value* for_each_channel(Builder& b, Value* parameter, std::int64_t groups, const Dim& channels) {
  const Dim per_group = floor_div(channels, groups);
  Value* column = b.reshape(parameter, {groups, 1});
  return b.reshape(b.expand(column, {groups, per_group}), {channels});
}

Expected<Values> group_norm(NodeContext& c) {
  Builder& b = c.builder();
  Value* x = c.operand(0);
  const std::int64_t groups = c.integer("num_groups", 0);
  if (x->rank() < 2) return fail("x must have a batch and a channel axis");
  if (groups < 1) return fail("num_groups must be 1 or more, not {}", groups);
  Value* scale = c.operand(1);
  Value* bias = c.operand(2);
  if (c.opset() < 21) {
    scale = for_each_channel(b, scale, groups, x->shape()[1]);
    bias = for_each_channel(b, bias, groups, x->shape()[1]);
  }
  return one(b.op("group_norm", {x, scale, bias},
                  {{"groups", groups}, {"epsilon", c.real("epsilon", kEpsilon)}}));
}

// Each channel is a group.
Expected<Values> instance_norm(NodeContext& c) {
  Value* x = c.operand(0);
  if (x->rank() < 2) return fail("x must have a batch and a channel axis");
  const auto channels = x->shape()[1].constant();
  if (!channels) return fail("the number of channels must be known, but is {}", x->shape()[1]);
  return one(c.builder().op("group_norm", {x, c.operand(1), c.operand(2)},
                            {{"groups", *channels}, {"epsilon", c.real("epsilon", kEpsilon)}}));
}

// (x - mean) / sqrt(variance + epsilon) * scale + bias with given statistics.
Expected<Values> batch_norm(NodeContext& c) {
  Builder& b = c.builder();
  Value* x = c.operand(0);
  if (x->rank() < 2) return fail("x must have a batch and a channel axis");
  if (c.integer("training_mode", 0) != 0 || c.wants(1)) {
    return fail("statistics of the batch belong to training; export the model for inference");
  }
  const DType dtype = compute_dtype(x->dtype());
  const auto parameter = [&](int index) {
    return along_channels(b, b.cast(c.operand(index), dtype), x);
  };
  Value* epsilon = b.scalar(c.real("epsilon", kEpsilon), dtype);
  Value* deviation = b.op("sqrt", {b.binary("add", parameter(4), epsilon)});
  Value* y = b.binary("sub", b.cast(x, dtype), parameter(3));
  y = b.binary("mul", b.binary("div", y, deviation), parameter(1));
  return one(b.cast(b.binary("add", y, parameter(2)), x->dtype()));
}

// ---- by a norm, by mean and deviation ----

// 0 where the norm is 0.
Expected<Values> lp_normalization(NodeContext& c) {
  Builder& b = c.builder();
  Value* x = c.operand(0);
  OPWELD_TRY(const int axis, c.axis("axis", -1, x->rank()));
  const std::int64_t p = c.integer("p", 2);
  if (p != 1 && p != 2) return fail("p must be 1 or 2, not {}", p);
  Value* norm = b.op(p == 1 ? "reduce_l1" : "reduce_l2", {x}, along({axis}));
  Value* zero = b.scalar(0, x->dtype());
  Value* is_zero = b.binary("eq", norm, zero);
  return one(b.op("select", {is_zero, zero, b.binary("div", x, norm)}));
}

// Deviations from the mean by sqrt(mean(x^2) - mean(x)^2), kept from 0 as the standard does.
Expected<Values> mean_variance_normalization(NodeContext& c) {
  Builder& b = c.builder();
  Value* x = c.operand(0);
  OPWELD_TRY(const auto axes,
             normalize_axes(c.integers_attribute("axes").value_or(Ints{0, 2, 3}), x->rank()));
  const Attributes over = along(Ints(axes.begin(), axes.end()));
  Value* mean = b.op("reduce_mean", {x}, over);
  Value* squares = b.op("reduce_mean", {b.binary("mul", x, x)}, over);
  Value* variance = b.binary("sub", squares, b.binary("mul", mean, mean));
  Value* deviation = b.binary("add", b.op("sqrt", {variance}), b.scalar(1e-9, x->dtype()));
  return one(b.binary("div", b.binary("sub", x, mean), deviation));
}

constexpr OperatorRule kRules[] = {
    {"BatchNormalization", batch_norm, "", 5, 5},
    {"GroupNormalization", group_norm, "", 3, 3},
    {"InstanceNormalization", instance_norm, "", 3, 3},
    {"LayerNormalization", layer_norm, "", 2, 3},
    {"LpNormalization", lp_normalization},
    {"MeanVarianceNormalization", mean_variance_normalization},
    {"RMSNormalization", rms_norm, "", 2, 2},
    {"SimplifiedLayerNormalization", rms_norm, "", 2, 2},
    {"SimplifiedLayerNormalization", rms_norm, "", 2, 2, kMicrosoft},
    {"SkipLayerNormalization", skip_norm, "layer_norm", 3, 5, kMicrosoft},
    {"SkipSimplifiedLayerNormalization", skip_norm, "rms_norm", 3, 4, kMicrosoft},
};

}  // namespace

std::span<const OperatorRule> norm_operators() {
  return kRules;
}

}  // namespace opweld
