// reshape: the same elements in row-major order under another shape.
#include "ops/element_walk.h"
#include "ops/families.h"
#include "ops/infer_helpers.h"
#include "ops/shape_values.h"
#include "ops/size_rules.h"

namespace opweld {
namespace {

Expected<std::vector<TensorType>> infer_reshape(const OpContext& context) {
  TensorType result{context.type(0).dtype, context.attributes.shape("shape")};
  const Dim before = context.type(0).num_elements();
  const Dim after = result.num_elements();
  if (!unify_sizes(before, after, "x and the result, in elements,", context.assumptions)) {
    return fail("x {} has {} elements, the shape {} has {}", to_string(context.type(0)), before,
                to_string(result.shape), after);
  }
  return one_result(context, std::move(result));
}

ShapeValue reshape_value(const OpContext& context) {
  return context.operands[0]->contents();
}

Status evaluate_reshape(const EvalContext& context) {
  const Tensor& x = *context.operands[0];
  ElementMover(context.results[0], x)(0, 0, x.num_elements());
  return {};
}

}  // namespace

std::span<const OpDef> reshape_ops() {
  static const OpDef defs[] = {
      {
          .name = "reshape",
          .summary = "the elements of x, in row-major order, under `shape`",
          .trait = FusionTrait::View,
          .operands = {{"x"}},
          .attributes = {{"shape", AttributeKind::Shape}},
          .infer = infer_reshape,
          .contents = reshape_value,
          .evaluate = evaluate_reshape,
      },
  };
  return defs;
}

}  // namespace opweld
