#include "ops/shape_values.h"

#include "ops/element_walk.h"

namespace opweld {

std::optional<Sizes> constant_sizes(const Shape& shape) {
  Sizes sizes;
  sizes.reserve(shape.size());
  for (const Dim& dim : shape) {
    const auto size = dim.constant();
    if (!size) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

std::optional<Sizes> constant_contents(const OpContext& context, int operand) {
  if (!context.has(operand) || !context.operands[operand]->contents()) return std::nullopt;
  Sizes values;
  for (const Dim& dim : *context.operands[operand]->contents()) {
    const auto value = dim.constant();
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

ShapeValue strided_contents(const ShapeValue& source, const Shape& sizes, const Sizes& strides,
                            std::int64_t offset) {
  const auto known_sizes = constant_sizes(sizes);
  if (!source || !known_sizes) return std::nullopt;
  const auto count = TensorType{DType::I64, sizes}.num_elements().constant();
  if (!count || *count > kMaxShapeValueElements) return std::nullopt;
  std::vector<Dim> result(static_cast<std::size_t>(*count));
  walk(*known_sizes, strides, offset, [&](std::int64_t position, std::int64_t from) {
    result[static_cast<std::size_t>(position)] = (*source)[static_cast<std::size_t>(from)];
  });
  return result;
}

}  // namespace opweld
