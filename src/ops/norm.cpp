// layer_norm, rms_norm and group_norm.
//
// Mean, variance and all that follows are computed in the compute type (f32 for halves) and rounded
// once, at the end. The variance is that of the population, mean((x - mean(x))^2). Scale and bias
// may have another float dtype than x.
#include <cmath>

#include "ops/axes.h"
#include "ops/broadcast.h"
#include "ops/composite.h"
#include "ops/families.h"
#include "ops/infer_helpers.h"

namespace opweld {
namespace {

constexpr double kDefaultEpsilon = 1e-5;

double epsilon_of(const Attributes& attributes) {
  return attributes.real("epsilon", kDefaultEpsilon);
}

// ---- shape rules ----

Expected<std::vector<TensorType>> infer_norm(const OpContext& context) {
  OPWELD_CHECK(require_broadcast_to(context, 1, "scale", context.type(0).shape));
  OPWELD_CHECK(require_broadcast_to(context, 2, "bias", context.type(0).shape));
  return infer_along_axis(context);
}

Expected<std::vector<TensorType>> infer_group_norm(const OpContext& context) {
  OPWELD_CHECK(require_min_rank(context, 0, 2));
  const Shape& x = context.type(0).shape;
  const std::int64_t groups = context.attributes.integer("groups");
  if (groups < 1) return fail("attribute 'groups' must be 1 or more, not {}", groups);
  OPWELD_CHECK(require_multiple(context, x[1], groups, "the number of channels"));
  for (const int index : {1, 2}) {
    OPWELD_CHECK(require_rank(context, index, 1));
    OPWELD_CHECK(require_same_size(
        context, x[1], context.type(index).shape[0],
        index == 1 ? "the channels of 'x' and 'scale'" : "the channels of 'x' and 'bias'"));
  }
  return std::vector<TensorType>{context.type(0)};
}

// ---- evaluation ----

struct Statistics {
  double mean = 0;
  double inverse_deviation = 0;  // 1 / sqrt(variance + epsilon)
};

// Of x[first, first + count); with `centered` false the mean is taken to be 0, as rms_norm does.
Statistics statistics_of(const Tensor& x, std::int64_t first, std::int64_t count, bool centered,
                         double epsilon) {
  const auto n = static_cast<double>(count);
  Statistics statistics;
  if (centered) {
    for (std::int64_t i = 0; i < count; ++i) statistics.mean += x.get_double(first + i);
    statistics.mean /= n;
  }
  double squares = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double deviation = x.get_double(first + i) - statistics.mean;
    squares += deviation * deviation;
  }
  statistics.inverse_deviation = 1 / std::sqrt(squares / n + epsilon);
  return statistics;
}

// Statistics of each run of `count` elements.
std::vector<Statistics> all_statistics(const Tensor& x, std::int64_t count, bool centered,
                                       double epsilon) {
  std::vector<Statistics> all;
  for (std::int64_t first = 0; first < x.num_elements(); first += count) {
    all.push_back(statistics_of(x, first, count, centered, epsilon));
  }
  return all;
}

template <bool centered>
Status evaluate_norm(const EvalContext& context) {
  const Tensor& x = *context.operands[0];
  const Tensor* scale = context.operands[1];
  const Tensor* bias = centered ? context.operands[2] : nullptr;
  const int axis = *axis_attribute(context.attributes, x.rank(), -1);
  const std::int64_t length = AxisLines(x.sizes(), axis, x.rank()).length;
  const auto statistics = all_statistics(x, length, centered, epsilon_of(context.attributes));
  for_each_broadcast(context, [&](std::int64_t at, std::span<const std::int64_t> from) {
    const Statistics& line = statistics[static_cast<std::size_t>(at / length)];
    double y = (x.get_double(at) - line.mean) * line.inverse_deviation;
    if (scale != nullptr) y *= scale->get_double(from[1]);
    if (bias != nullptr) y += bias->get_double(from[2]);
    context.results[0].set_double(at, y);
  });
  return {};
}

Status evaluate_group_norm(const EvalContext& context) {
  const Tensor& x = *context.operands[0];
  if (x.num_elements() == 0) return {};
  const std::int64_t channels = x.sizes()[1];
  const std::int64_t per_channel = AxisLines(x.sizes(), 0, 2).inner;
  const std::int64_t per_group = channels / context.attributes.integer("groups") * per_channel;
  const auto statistics = all_statistics(x, per_group, true, epsilon_of(context.attributes));
  for (std::int64_t at = 0; at < x.num_elements(); ++at) {
    const Statistics& group = statistics[static_cast<std::size_t>(at / per_group)];
    const std::int64_t channel = at / per_channel % channels;
    const double normal = (x.get_double(at) - group.mean) * group.inverse_deviation;
    context.results[0].set_double(at, normal * context.operands[1]->get_double(channel) +
                                          context.operands[2]->get_double(channel));
  }
  return {};
}

// ---- bodies ----

// The axes from `first` on.
Ints axes_from(int first, int rank) {
  Ints axes;
  for (int axis = first; axis < rank; ++axis) axes.push_back(axis);
  return axes;
}

// x / sqrt(mean(x^2) + epsilon) over the axes.
Value* divided_by_rms(Builder& builder, Value* x, DType dtype, const Attributes& along,
                      double epsilon) {
  Value* variance = builder.op("reduce_mean", {builder.binary("mul", x, x)}, along);
  Value* shifted = builder.binary("add", variance, builder.scalar(epsilon, dtype));
  return builder.binary("mul", x, builder.op("rsqrt", {shifted}));
}

Value* centered_on_mean(Builder& builder, Value* x, const Attributes& along) {
  return builder.binary("sub", x, builder.op("reduce_mean", {x}, along));
}

template <bool centered>
Expected<std::vector<Value*>> norm_body(Graph& graph, const Node& node) {
  Builder builder = body_builder(graph, node);
  const TensorType& type = node.operand(0)->type();
  const DType dtype = compute_dtype(type.dtype);
  OPWELD_TRY(const int axis, axis_attribute(node.attributes(), type.rank(), -1));
  const Attributes along{{"axes", axes_from(axis, type.rank())}, {"keepdims", std::int64_t{1}}};
  Value* y = builder.cast(node.operand(0), dtype);
  if (centered) y = centered_on_mean(builder, y, along);
  y = divided_by_rms(builder, y, dtype, along, epsilon_of(node.attributes()));
  constexpr const char* kThen[] = {"mul", "add"};  // the scale, the bias
  for (int index = 1; index < node.num_operands(); ++index) {
    if (node.operand(index) == nullptr) continue;
    y = builder.binary(kThen[index - 1], y, builder.cast(node.operand(index), dtype));
  }
  return finish_body(builder, builder.cast(y, type.dtype));
}

// [C] as [C, 1, ..., 1], which broadcasts along the channels of x.
Value* along_channels(Builder& builder, Value* x, const TensorType& type, DType dtype) {
  Shape shape(static_cast<std::size_t>(type.rank() - 1), 1);
  shape[0] = type.shape[1];
  return builder.reshape(builder.cast(x, dtype), std::move(shape));
}

Expected<std::vector<Value*>> group_norm_body(Graph& graph, const Node& node) {
  Builder builder = body_builder(graph, node);
  const TensorType& type = node.operand(0)->type();
  const DType dtype = compute_dtype(type.dtype);
  const std::int64_t groups = node.attributes().integer("groups");
  // Axes of x stay apart, as [N, G, C / G, rest...]: nothing is divided but C.
  Shape grouped = type.shape;
  grouped[1] = floor_div(type.shape[1], groups);
  grouped.insert(grouped.begin() + 1, groups);
  const Attributes along{{"axes", axes_from(2, type.rank() + 1)}, {"keepdims", std::int64_t{1}}};
  Value* x = builder.reshape(builder.cast(node.operand(0), dtype), std::move(grouped));
  Value* centered = centered_on_mean(builder, x, along);
  Value* y = divided_by_rms(builder, centered, dtype, along, epsilon_of(node.attributes()));
  y = builder.reshape(y, type.shape);
  y = builder.binary("mul", y, along_channels(builder, node.operand(1), type, dtype));
  y = builder.binary("add", y, along_channels(builder, node.operand(2), type, dtype));
  return finish_body(builder, builder.cast(y, type.dtype));
}

}  // namespace

std::span<const OpDef> norm_ops() {
  using Arity = OperandDef::Arity;
  static const OpDef defs[] = {
      {
          .name = "layer_norm",
          .summary = "(x - mean) / sqrt(variance + epsilon) over the axes from `axis` (the last if "
                     "absent) on, times scale, plus bias (Ba et al. 2016)",
          .trait = FusionTrait::Composite,
          .operands = {{"x", kFloats},
                       {"scale", kFloats, 0, Arity::Optional},
                       {"bias", kFloats, 0, Arity::Optional}},
          .attributes = {{"axis", AttributeKind::Integer, false},
                         {"epsilon", AttributeKind::Real, false}},
          .infer = infer_norm,
          .evaluate = evaluate_norm<true>,
          .body = norm_body<true>,
      },
      {
          .name = "rms_norm",
          .summary = "x / sqrt(mean(x^2) + epsilon) over the axes from `axis` (the last if absent) "
                     "on, times scale (Zhang and Sennrich 2019)",
          .trait = FusionTrait::Composite,
          .operands = {{"x", kFloats}, {"scale", kFloats, 0, Arity::Optional}},
          .attributes = {{"axis", AttributeKind::Integer, false},
                         {"epsilon", AttributeKind::Real, false}},
          .infer = infer_norm,
          .evaluate = evaluate_norm<false>,
          .body = norm_body<false>,
      },
      {
          .name = "group_norm",
          .summary = "x[N, C, ...] normalised over each of `groups` runs of channels, times "
                     "scale[C], plus bias[C] (Wu and He 2018)",
          .trait = FusionTrait::Composite,
          .operands = {{"x", kFloats}, {"scale", kFloats}, {"bias", kFloats}},
          .attributes = {{"groups", AttributeKind::Integer},
                         {"epsilon", AttributeKind::Real, false}},
          .infer = infer_group_norm,
          .evaluate = evaluate_group_norm,
          .body = group_norm_body,
      },
  };
  return defs;
}

}  // namespace opweld
