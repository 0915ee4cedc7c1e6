// Operators that pick or place by index: gathers, scatters, TopK, OneHot, Trilu.
#include "import/onnx/chosen_rows.h"
#include "import/onnx/operators/table.h"
#include "ops/infer_helpers.h"

namespace opweld {
namespace {

Expected<Values> gather(NodeContext& c) {
  OPWELD_TRY(const int axis, c.axis("axis", 0, c.operand(0)->rank()));
  return one(
      c.builder().op(c.target(), {c.operand(0), c.operand(1)}, {{"axis", std::int64_t{axis}}}));
}

Expected<Values> gather_nd(NodeContext& c) {
  return one(c.builder().op("gather_nd", {c.operand(0), c.operand(1)},
                            {{"batch_dims", c.integer("batch_dims", 0)}}));
}

Expected<Values> scatter_elements(NodeContext& c) {
  OPWELD_TRY(const int axis, c.axis("axis", 0, c.operand(0)->rank()));
  return one(
      c.builder().op("scatter_elements", c.operands(),
                     {{"axis", std::int64_t{axis}}, {"reduction", c.text("reduction", "none")}}));
}

Expected<Values> scatter_nd(NodeContext& c) {
  return one(
      c.builder().op("scatter_nd", c.operands(), {{"reduction", c.text("reduction", "none")}}));
}

Expected<Values> tensor_scatter(NodeContext& c) {
  OPWELD_TRY(const int axis, c.axis("axis", -2, c.operand(0)->rank()));
  return one(c.builder().op("tensor_scatter", c.operands(),
                            {{"axis", std::int64_t{axis}}, {"mode", c.text("mode", "linear")}}));
}

// How many there are is a size that only this node knows; see chosen_rows.h.
Expected<Values> nonzero(NodeContext& c) {
  Value* const x = c.operand(0);
  if (x->rank() == 0) return fail("of a scalar is not supported");
  const Dim count = nonzero_count(c.builder().graph().num_nodes());
  return one(c.builder().op("nonzero", {x}, {{"count", Shape{count}}}));
}

// k is an attribute before opset 10.
Expected<Values> top_k(NodeContext& c) {
  Builder& b = c.builder();
  Value* x = c.operand(0);
  OPWELD_TRY(const int axis, c.axis("axis", -1, x->rank()));
  Dim k = c.integer("k", 0);
  if (c.opset() >= 10) {
    OPWELD_TRY(k, c.dim(1, "k"));
  }
  Value* values = b.op("top_k", {x},
                       {{"axis", std::int64_t{axis}},
                        {"k", Shape{k}},
                        {"largest", c.integer("largest", 1)},
                        {"sorted", c.integer("sorted", 1)}});
  OPWELD_CHECK(c.status());
  return Values{values, values->producer()->result(1)};
}

// The depth may be given as a real number.
Expected<Dim> one_hot_depth(NodeContext& c) {
  if (!is_float(c.operand(1)->dtype())) return c.dim(1, "depth");
  const auto depth = c.constant(1);
  if (!depth || depth->num_elements() != 1) return fail("the depth must be one known number");
  return Dim(depth->get_int(0));
}

Expected<Values> one_hot(NodeContext& c) {
  Builder& b = c.builder();
  Value* indices = c.operand(0);
  OPWELD_TRY(const int axis, c.axis("axis", -1, indices->rank() + 1));
  OPWELD_TRY(const Dim depth, one_hot_depth(c));
  if (indices->dtype() != DType::I32) indices = b.cast(indices, DType::I64);
  return one(b.op("one_hot", {indices, c.operand(2)},
                  {{"axis", std::int64_t{axis}}, {"depth", Shape{depth}}}));
}

// An element stays if its column lies at or above (below) the k-th diagonal.
Expected<Values> trilu(NodeContext& c) {
  Builder& b = c.builder();
  Value* x = c.operand(0);
  if (x->rank() < 2) return fail("wants x of rank 2 or more, not {}", x->rank());
  const Dim& rows = x->shape()[x->shape().size() - 2];
  const Dim& columns = x->shape().back();
  const auto places = [&](const Shape& counted, std::int64_t axis) {
    return b.op("iota", {}, {{"shape", counted}, {"axis", axis}, {"dtype", DType::I64}});
  };
  Value* diagonal = places({rows, 1}, 0);
  if (c.has(1)) {
    Value* k = b.cast(b.reshape(c.operand(1), {}), DType::I64);
    diagonal = b.binary("add", diagonal, k);
  }
  const std::string_view stays = c.integer("upper", 1) != 0 ? "ge" : "le";
  Value* kept = b.binary(stays, places({1, columns}, 1), diagonal);
  return one(b.op("select", {kept, x, b.scalar(0, x->dtype())}));
}

constexpr OperatorRule kRules[] = {
    {"Gather", gather, "gather", 2, 2},
    {"GatherElements", gather, "gather_elements", 2, 2},
    {"GatherND", gather_nd, "", 2, 2},
    {"NonZero", nonzero},
    {"OneHot", one_hot, "", 3, 3},
    {"Scatter", scatter_elements, "", 3, 3},
    {"ScatterElements", scatter_elements, "", 3, 3},
    {"ScatterND", scatter_nd, "", 3, 3},
    {"TensorScatter", tensor_scatter, "", 2, 3},
    {"TopK", top_k, "", 1, 2},
    {"Trilu", trilu, "", 1, 2},
};

}  // namespace

std::span<const OperatorRule> index_operators() {
  return kRules;
}

}  // namespace opweld
