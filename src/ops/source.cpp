// Operators without tensor operands.
#include "ops/families.h"

namespace opweld {
namespace {

// Beyond this many elements an integer tensor is data, not sizes.
constexpr std::int64_t kMaxContents = 256;

Expected<std::vector<TensorType>> infer_constant(const OpContext& context) {
  const Tensor& value = context.attributes.tensor("value");
  return std::vector<TensorType>{
      {value.dtype(), Shape(value.sizes().begin(), value.sizes().end())}};
}

std::optional<std::vector<Dim>> constant_contents(const OpContext& context) {
  const Tensor& value = context.attributes.tensor("value");
  if (!is_integer(value.dtype()) || value.num_elements() > kMaxContents) return std::nullopt;
  std::vector<Dim> contents;
  for (std::int64_t i = 0; i < value.num_elements(); ++i) contents.emplace_back(value.get_int(i));
  return contents;
}

}  // namespace

std::span<const OpDef> source_ops() {
  static const OpDef defs[] = {
      {
          .name = "constant",
          .summary = "the tensor `value`",
          .trait = FusionTrait::Source,
          .operands = {},
          .attributes = {{"value", AttributeKind::Tensor}},
          .infer = infer_constant,
          .contents = constant_contents,
      },
  };
  return defs;
}

}  // namespace opweld
