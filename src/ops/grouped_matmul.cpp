// grouped_matmul: each group of rows times a matrix of its own, the experts of a mixture of
// experts.
//
//   result[t, n] = sum over k of x[t, k] w[g, k, n] + bias[g, n],   g the group of row t
//
// x [T, K], w [E, K, N], bias [E, N] or absent; the groups' rows lie one after the other in x.
// counts [E] says how many each has, or, if `cumulative` is 1, the row that it ends before
// (counts[E - 1] = T). Groups may be empty. Groups that do not share out all T rows exactly are an
// error of the run that says which group and which numbers (see row_groups.h): no row is computed
// by no group, and none is left undefined.
//
// The product is rounded once, after the bias; a sum of no products is zero. Integers wrap. NaN and
// infinities of a row stay in that row, those of a matrix in its group's rows.
//
// Lists. y_i = x_i w_i + b_i for lists of E matrices of M_i rows each is this operator on
// concat(x_i) along axis 0, the w_i (and the b_i) stacked along a new first axis, and counts
// [M_0, ..., M_{E-1}], which is a `sizes` where the lists' lengths are known when the model is
// built; slices of the result are the y_i. The list form of other libraries thus needs no operator
// of its own: concat and slices are index maps, constant weights are stacked when the model is
// compiled.
#include "ops/families.h"
#include "ops/infer_helpers.h"
#include "ops/matrix_product.h"
#include "ops/row_groups.h"

namespace opweld {
namespace {

enum Operand : std::uint8_t { kX, kW, kCounts, kBias };

Expected<std::vector<TensorType>> infer_grouped_matmul(const OpContext& context) {
  OPWELD_CHECK(require_rank(context, kX, 2));
  OPWELD_CHECK(require_rank(context, kW, 3));
  OPWELD_CHECK(require_rank(context, kCounts, 1));
  const std::int64_t cumulative = context.attributes.integer("cumulative", 0);
  if (cumulative != 0 && cumulative != 1) {
    return fail("attribute 'cumulative' must be 0 or 1, not {}", cumulative);
  }
  const Shape& x = context.type(kX).shape;
  const Shape& w = context.type(kW).shape;
  const Shape& counts = context.type(kCounts).shape;
  OPWELD_CHECK(require_same_size(context, x[1], w[1], "the columns of 'x' and the rows of 'w'"));
  OPWELD_CHECK(require_same_size(context, w[0], counts[0], "the groups of 'w' and 'counts'"));
  if (context.has(kBias)) {
    OPWELD_CHECK(require_rank(context, kBias, 2));
    const Shape& bias = context.type(kBias).shape;
    OPWELD_CHECK(require_same_size(context, w[0], bias[0], "the groups of 'w' and 'bias'"));
    OPWELD_CHECK(require_same_size(context, w[2], bias[1], "the columns of 'w' and 'bias'"));
  }
  return std::vector<TensorType>{{context.type(kX).dtype, {x[0], w[2]}}};
}

Status evaluate_grouped_matmul(const EvalContext& context) {
  const Tensor& x = *context.operands[kX];
  const Tensor& w = *context.operands[kW];
  const Tensor& counts = *context.operands[kCounts];
  const bool cumulative = context.attributes.integer("cumulative", 0) != 0;
  OPWELD_TRY(const auto starts, group_starts(counts, cumulative, x.sizes()[0]));
  const std::int64_t depth = w.sizes()[1];
  const std::int64_t columns = w.sizes()[2];
  for (std::size_t group = 0; group + 1 < starts.size(); ++group) {
    const auto matrix = static_cast<std::int64_t>(group);
    multiply({.rows = starts[group + 1] - starts[group],
              .depth = depth,
              .columns = columns,
              .a = &x,
              .a_first = starts[group] * depth,
              .b = &w,
              .b_first = matrix * depth * columns,
              .bias = context.operands[kBias],
              .bias_first = matrix * columns,
              .result = context.results.data(),
              .result_first = starts[group] * columns});
  }
  return {};
}

}  // namespace

std::span<const OpDef> grouped_matmul_ops() {
  static const OpDef defs[] = {
      {
          .name = "grouped_matmul",
          .summary = "x[T, K], w[E, K, N], counts[E], bias[E, N]? -> [T, N]: each group of rows "
                     "times its own matrix; see the head of ops/grouped_matmul.cpp",
          .trait = FusionTrait::Contract,
          .operands = {{"x", kNumbers, 1},
                       {"w", kNumbers, 1},
                       {"counts", kIndices},
                       {"bias", kNumbers, 1, OperandDef::Arity::Optional}},
          .attributes = {{"cumulative", AttributeKind::Integer, false}},
          .infer = infer_grouped_matmul,
          .evaluate = evaluate_grouped_matmul,
      },
  };
  return defs;
}

}  // namespace opweld
