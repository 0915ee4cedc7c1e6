// nonzero: where a tensor is not zero. How many places there are is in the data, while every size
// of a graph is known before it runs: the operator is told their number, and a run in which it is
// another fails. Importers make it with a size of its own for each, and replace it together with
// what reads it, or refuse the model (import/onnx/chosen_rows.h).
#include "ops/element_walk.h"
#include "ops/families.h"
#include "ops/size_rules.h"

namespace opweld {
namespace {

Expected<std::vector<TensorType>> infer_nonzero(const OpContext& context) {
  OPWELD_TRY(const Dim count, single_dim(context.attributes, "count"));
  return std::vector<TensorType>{{DType::I64, {Dim(context.type(0).rank()), count}}};
}

bool is_nonzero(const Tensor& x, std::int64_t position) {
  return is_float(x.dtype()) ? x.get_double(position) != 0 : x.get_int(position) != 0;
}

Status evaluate_nonzero(const EvalContext& context) {
  const Tensor& x = *context.operands[0];
  Tensor& result = context.results[0];
  const std::int64_t count = result.sizes()[1];
  const Sizes strides = row_major_strides(x.sizes());
  std::int64_t found = 0;
  for (std::int64_t position = 0; position < x.num_elements(); ++position) {
    if (!is_nonzero(x, position)) continue;
    for (std::size_t axis = 0; axis < strides.size() && found < count; ++axis) {
      const std::int64_t index = position / strides[axis] % x.sizes()[axis];
      result.set_int(static_cast<std::int64_t>(axis) * count + found, index);
    }
    ++found;
  }
  if (found != count) return fail("{} elements are not zero, not {}", found, count);
  return {};
}

}  // namespace

std::span<const OpDef> nonzero_ops() {
  static const OpDef defs[] = {
      {
          .name = "nonzero",
          .summary = "i64[rank of x, count]: the indices of the `count` elements that are not "
                     "zero, in row-major order, an axis in each row (ONNX NonZero); another number "
                     "of them is an error",
          .trait = FusionTrait::Opaque,
          .operands = {{"x", kAnyDType}},
          .attributes = {{"count", AttributeKind::Shape}},
          .infer = infer_nonzero,
          .evaluate = evaluate_nonzero,
      },
  };
  return defs;
}

}  // namespace opweld
