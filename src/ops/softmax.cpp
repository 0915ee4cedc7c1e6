// softmax and log_softmax along an axis.
//
// The maximum m of a line is taken out first, so that no exponential overflows. A line that holds
// NaN or +inf, or -inf alone, gives NaN throughout: x - m is NaN there, as in numpy's formula, and
// so is the sum. The maximum itself need not keep NaN for that, which makes it cheaper.
//
// A kernel multiplies by the reciprocal of the sum, which it takes once for a line, where a
// quotient would be taken for each element. The sum is 1 at least, so the reciprocal is neither
// infinite nor subnormal, and a product differs from the quotient by no more than its last bit.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/axes.h"
#include "ops/composite.h"
#include "ops/families.h"

namespace opweld {
namespace {

// The greatest element of a line and the sum of exp(x - m) over it.
struct LineStatistics {
  double maximum = -std::numeric_limits<double>::infinity();
  double sum = 0;
};

LineStatistics statistics_of(const Tensor& x, const AxisLines& lines, std::int64_t start) {
  LineStatistics line;
  for (std::int64_t i = 0; i < lines.length; ++i) {
    const double value = x.get_double(start + i * lines.inner);
    if (value > line.maximum || std::isnan(value)) line.maximum = value;
  }
  for (std::int64_t i = 0; i < lines.length; ++i) {
    line.sum += std::exp(x.get_double(start + i * lines.inner) - line.maximum);
  }
  return line;
}

template <bool logarithm>
Status evaluate_softmax(const EvalContext& context) {
  const Tensor& x = *context.operands[0];
  const int axis = *axis_attribute(context.attributes, x.rank(), -1);
  const AxisLines lines(x.sizes(), axis, axis + 1);
  lines.for_each([&](std::int64_t start) {
    const LineStatistics line = statistics_of(x, lines, start);
    for (std::int64_t i = 0; i < lines.length; ++i) {
      const std::int64_t at = start + i * lines.inner;
      const double shifted = x.get_double(at) - line.maximum;
      context.results[0].set_double(
          at, logarithm ? shifted - std::log(line.sum) : std::exp(shifted) / line.sum);
    }
  });
  return {};
}

template <bool logarithm>
Expected<std::vector<Value*>> softmax_body(Graph& graph, const Node& node) {
  Builder builder = body_builder(graph, node);
  const TensorType& type = node.operand(0)->type();
  OPWELD_TRY(const int axis, axis_attribute(node.attributes(), type.rank(), -1));
  const Attributes along{{"axes", Ints{axis}}, {"keepdims", std::int64_t{1}}};
  Value* x = builder.cast(node.operand(0), compute_dtype(type.dtype));
  Value* shifted = builder.binary("sub", x, builder.op("reduce_max_number", {x}, along));
  Value* exponentials = builder.op("exp", {shifted});
  Value* sum = builder.op("reduce_sum", {exponentials}, along);
  Value* result = logarithm ? builder.binary("sub", shifted, builder.op("log", {sum}))
                            : builder.binary("mul", exponentials, builder.op("reciprocal", {sum}));
  return finish_body(builder, builder.cast(result, type.dtype));
}

template <bool logarithm>
OpDef softmax_op(std::string_view name, std::string_view summary) {
  return {.name = name,
          .summary = summary,
          .trait = FusionTrait::Composite,
          .operands = {{"x", kFloats}},
          .attributes = {{"axis", AttributeKind::Integer, false}},
          .infer = infer_along_axis,
          .evaluate = evaluate_softmax<logarithm>,
          .body = softmax_body<logarithm>};
}

}  // namespace

std::span<const OpDef> softmax_ops() {
  static const OpDef defs[] = {
      softmax_op<false>("softmax",
                        "exp(x - m) / sum(exp(x - m)) along `axis` (the last if absent)"),
      softmax_op<true>("log_softmax",
                       "x - m - log(sum(exp(x - m))) along `axis` (the last if absent)"),
  };
  return defs;
}

}  // namespace opweld
