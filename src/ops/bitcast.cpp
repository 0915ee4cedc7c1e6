// bitcast: the bits of every element, read as another dtype of the same width.
//
// A bool is stored as 0 or 1: a byte that becomes one is true unless it is 0.
#include <cstring>

#include "ops/families.h"
#include "ops/infer_helpers.h"

namespace opweld {
namespace {

Expected<std::vector<TensorType>> infer_bitcast(const OpContext& context) {
  const TensorType& x = context.type(0);
  const DType to = context.attributes.dtype("to");
  if (byte_size(x.dtype) != byte_size(to)) {
    return fail("the bits of {} cannot be read as {}: their widths are {} and {} bytes",
                to_string(x.dtype), to_string(to), byte_size(x.dtype), byte_size(to));
  }
  return std::vector<TensorType>{{to, x.shape}};
}

Status evaluate_bitcast(const EvalContext& context) {
  const Tensor& x = *context.operands[0];
  Tensor& result = context.results[0];
  if (result.dtype() == DType::Bool) {
    for (std::int64_t i = 0; i < x.num_elements(); ++i) {
      result.set_int(i, x.data()[i] != std::byte{0} ? 1 : 0);
    }
  } else if (x.num_bytes() > 0) {
    std::memcpy(result.mutable_data(), x.data(), static_cast<std::size_t>(x.num_bytes()));
  }
  return {};
}

}  // namespace

std::span<const OpDef> bitcast_ops() {
  static const OpDef defs[] = {
      {
          .name = "bitcast",
          .summary =
              "the bits of x read as the dtype `to`, which has the same width (ONNX BitCast)",
          .trait = FusionTrait::Opaque,
          .operands = {{"x"}},
          .attributes = {{"to", AttributeKind::Type}},
          .infer = infer_bitcast,
          .evaluate = evaluate_bitcast,
          .of_bits = true,
      },
  };
  return defs;
}

}  // namespace opweld
