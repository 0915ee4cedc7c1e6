#include "ops/pointwise.h"

#include "graph/convert.h"
#include "ops/infer_helpers.h"

namespace opweld {

Expected<std::vector<TensorType>> infer_same_dtype(const OpContext& context) {
  return infer_pointwise(context, context.type(0).dtype);
}

Expected<std::vector<TensorType>> infer_predicate(const OpContext& context) {
  return infer_pointwise(context, DType::Bool);
}

void wrap_contents(std::vector<Dim>& contents, DType dtype) {
  for (Dim& element : contents) {
    if (element.is_constant()) element = wrap_integer(*element.constant(), dtype);
  }
}

}  // namespace opweld
