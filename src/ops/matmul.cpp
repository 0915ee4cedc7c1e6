// matmul: products of matrices, over broadcast batches.
#include "ops/broadcast.h"
#include "ops/families.h"
#include "ops/infer_helpers.h"
#include "ops/matrix_product.h"

namespace opweld {
namespace {

Expected<std::vector<TensorType>> infer_matmul(const OpContext& context) {
  OPWELD_CHECK(require_min_rank(context, 0, 2));
  OPWELD_CHECK(require_min_rank(context, 1, 2));
  const Shape& a = context.type(0).shape;
  const Shape& b = context.type(1).shape;
  if (auto depth = unify_sizes(a.back(), b[b.size() - 2], "the columns of 'a' and the rows of 'b'",
                               context.assumptions);
      !depth) {
    return fail("{}: 'a' is {}, 'b' is {}", depth.error().message, to_string(context.type(0)),
                to_string(context.type(1)));
  }
  OPWELD_TRY(Shape shape,
             broadcast_shapes(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2),
                              "the batches of 'a' and 'b'", context.assumptions));
  shape.push_back(a[a.size() - 2]);
  shape.push_back(b.back());
  return std::vector<TensorType>{{context.type(0).dtype, std::move(shape)}};
}

Sizes batch_of(const Tensor& tensor) {
  return {tensor.sizes().begin(), tensor.sizes().end() - 2};
}

Status evaluate_matmul(const EvalContext& context) {
  const Tensor& a = *context.operands[0];
  const Tensor& b = *context.operands[1];
  const std::int64_t rows = a.sizes()[a.sizes().size() - 2];
  const std::int64_t depth = a.sizes().back();
  const std::int64_t columns = b.sizes().back();
  const Sizes batches[] = {batch_of(a), batch_of(b)};
  const Sizes* operands[] = {&batches[0], &batches[1]};
  for (BroadcastWalk walk(batch_of(context.results[0]), operands); !walk.done(); walk.advance()) {
    multiply({.rows = rows,
              .depth = depth,
              .columns = columns,
              .a = &a,
              .a_first = walk.offsets()[0] * rows * depth,
              .b = &b,
              .b_first = walk.offsets()[1] * depth * columns,
              .result = context.results.data(),
              .result_first = walk.position() * rows * columns});
  }
  return {};
}

}  // namespace

std::span<const OpDef> matmul_ops() {
  static const OpDef defs[] = {
      {
          .name = "matmul",
          .summary = "a[..., M, K] b[..., K, N] -> [..., M, N], batches broadcast (numpy.matmul of "
                     "ranks >= 2); zeros where K is 0; integers wrap",
          .trait = FusionTrait::Contract,
          .operands = {{"a", kNumbers, 1}, {"b", kNumbers, 1}},
          .attributes = {},
          .infer = infer_matmul,
          .evaluate = evaluate_matmul,
      },
  };
  return defs;
}

}  // namespace opweld
