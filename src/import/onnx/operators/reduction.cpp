// Reductions over axes, running sums and products, arg max and min.
#include <numeric>

#include "import/onnx/operators/table.h"
#include "ops/infer_helpers.h"

namespace opweld {
namespace {

// The axes to reduce: an attribute, or the second operand from opset 13 (ReduceSum) or 18 on.
// Nothing where they are absent.
Expected<std::optional<Ints>> given_axes(NodeContext& c, std::int64_t operand_since) {
  if (c.opset() < operand_since || c.has_attribute("axes")) return c.integers_attribute("axes");
  if (!c.has(1)) return std::nullopt;
  OPWELD_TRY(Ints axes, c.integers(1, "axes"));
  return axes;
}

Expected<Values> reduce(NodeContext& c, std::int64_t operand_since) {
  Value* x = c.operand(0);
  OPWELD_TRY(const auto axes, given_axes(c, operand_since));
  Attributes attributes{{"keepdims", c.integer("keepdims", 1)}};
  if (axes && !axes->empty()) {
    OPWELD_TRY(const auto normal, normalize_axes(*axes, x->rank()));
    attributes.set("axes", Ints(normal.begin(), normal.end()));
  } else if (c.integer("noop_with_empty_axes", 0) != 0) {
    // Over no axes: what the operator does to each element remains.
    attributes.set("axes", Ints{});
  }
  return one(c.builder().op(c.target(), {x}, std::move(attributes)));
}

Expected<Values> reduce_sum(NodeContext& c) {
  return reduce(c, 13);
}

Expected<Values> reduce_other(NodeContext& c) {
  return reduce(c, 18);
}

// Max and min of bools are any and all.
Expected<Values> reduce_extremum(NodeContext& c) {
  if (c.operand(0)->dtype() != DType::Bool) return reduce(c, 18);
  Builder& b = c.builder();
  OPWELD_TRY(const auto axes, given_axes(c, 18));
  Attributes attributes{{"keepdims", c.integer("keepdims", 1)}};
  if (axes && !axes->empty()) {
    OPWELD_TRY(const auto normal, normalize_axes(*axes, c.operand(0)->rank()));
    attributes.set("axes", Ints(normal.begin(), normal.end()));
  } else if (c.integer("noop_with_empty_axes", 0) != 0) {
    return one(c.operand(0));
  }
  const std::string_view op = c.target() == "reduce_max" ? "reduce_any" : "reduce_all";
  return one(b.op(op, {c.operand(0)}, std::move(attributes)));
}

Expected<Values> arg_reduce(NodeContext& c) {
  OPWELD_TRY(const int axis, c.axis("axis", 0, c.operand(0)->rank()));
  return one(c.builder().op(c.target(), {c.operand(0)},
                            {{"axis", std::int64_t{axis}},
                             {"keepdims", c.integer("keepdims", 1)},
                             {"select_last", c.integer("select_last_index", 0)}}));
}

Expected<int> axis_operand(NodeContext& c) {
  OPWELD_TRY(const Ints axis, c.integers(1, "axis"));
  if (axis.size() != 1) return fail("the axis must be one number, not {}", axis.size());
  return normalize_axis(axis[0], c.operand(0)->rank());
}

Expected<Values> cumulative_sum(NodeContext& c) {
  OPWELD_TRY(const int axis, axis_operand(c));
  return one(c.builder().op("cumsum", {c.operand(0)},
                            {{"axis", std::int64_t{axis}},
                             {"exclusive", c.integer("exclusive", 0)},
                             {"reverse", c.integer("reverse", 0)}}));
}

// Element i is the product of those j that come before or at i: with the axis doubled to (i, j),
// x[j] where j counts, else 1, multiplied over j.
Expected<Values> cumulative_product(NodeContext& c) {
  Builder& b = c.builder();
  Value* x = c.operand(0);
  OPWELD_TRY(const int axis, axis_operand(c));
  const auto at = static_cast<std::size_t>(axis);
  const bool exclusive = c.integer("exclusive", 0) != 0;
  const bool reverse = c.integer("reverse", 0) != 0;
  Shape row = x->shape();
  row.insert(row.begin() + axis, 1);
  Shape counted(row.size(), 1);
  const auto places = [&](std::size_t counted_axis) {
    Shape shape = counted;
    shape[counted_axis] = x->shape()[at];
    return b.op("iota", {},
                {{"shape", shape},
                 {"axis", static_cast<std::int64_t>(counted_axis)},
                 {"dtype", DType::I64}});
  };
  const std::string_view before = exclusive ? (reverse ? "gt" : "lt") : (reverse ? "ge" : "le");
  Value* counts = b.binary(before, places(at + 1), places(at));
  Value* factors = b.op("select", {counts, b.reshape(x, row), b.scalar(1, x->dtype())});
  return one(
      b.op("reduce_prod", {factors}, {{"axes", Ints{axis + 1}}, {"keepdims", std::int64_t{0}}}));
}

// Mean or maximum over all axes but batch and channels.
Expected<Values> global_pool(NodeContext& c) {
  Value* x = c.operand(0);
  if (x->rank() < 2) return fail("x must have a batch and a channel axis");
  Ints axes(static_cast<std::size_t>(x->rank() - 2));
  std::iota(axes.begin(), axes.end(), 2);
  return one(c.builder().op(c.target(), {x}, {{"axes", axes}, {"keepdims", std::int64_t{1}}}));
}

constexpr OperatorRule kRules[] = {
    {"ArgMax", arg_reduce, "argmax"},
    {"ArgMin", arg_reduce, "argmin"},
    {"CumProd", cumulative_product, "", 2, 2},
    {"CumSum", cumulative_sum, "", 2, 2},
    {"GlobalAveragePool", global_pool, "reduce_mean"},
    {"GlobalMaxPool", global_pool, "reduce_max"},
    {"ReduceL1", reduce_other, "reduce_l1", 1, 2},
    {"ReduceL2", reduce_other, "reduce_l2", 1, 2},
    {"ReduceLogSum", reduce_other, "reduce_log_sum", 1, 2},
    {"ReduceLogSumExp", reduce_other, "reduce_log_sum_exp", 1, 2},
    {"ReduceMax", reduce_extremum, "reduce_max", 1, 2},
    {"ReduceMean", reduce_other, "reduce_mean", 1, 2},
    {"ReduceMin", reduce_extremum, "reduce_min", 1, 2},
    {"ReduceProd", reduce_other, "reduce_prod", 1, 2},
    {"ReduceSum", reduce_sum, "reduce_sum", 1, 2},
    {"ReduceSumSquare", reduce_other, "reduce_sum_square", 1, 2},
};

}  // namespace

std::span<const OperatorRule> reduction_operators() {
  return kRules;
}

}  // namespace opweld
