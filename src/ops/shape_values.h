// Shape values: integer tensors computed from sizes only, whose elements are known as Dims.
//
// The rules here keep Value::contents() known through the chains exporters write around Reshape and
// Expand (Shape -> Gather -> Concat -> Reshape).
#pragma once

#include <optional>
#include <vector>

#include "graph/tensor.h"
#include "ops/op.h"
#include "support/shape.h"

namespace opweld {

// Shape values are short; beyond this many elements a tensor counts as data.
inline constexpr std::int64_t kMaxShapeValueElements = 256;

using ShapeValue = std::optional<std::vector<Dim>>;

// The sizes, if all are constants.
std::optional<Sizes> constant_sizes(const Shape& shape);

// The constant elements of an operand's contents; nothing if it is absent, unknown or symbolic.
std::optional<Sizes> constant_contents(const OpContext& context, int operand);

// The shape value over `sizes` whose element at an index is
// source[offset + sum(index[axis] * strides[axis])]. Nothing if the source is not known, sizes are
// symbolic or there are too many elements.
ShapeValue strided_contents(const ShapeValue& source, const Shape& sizes, const Sizes& strides,
                            std::int64_t offset);

}  // namespace opweld
