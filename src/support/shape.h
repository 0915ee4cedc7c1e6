// Shapes: a Dim for each axis, the outermost first.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/dim.h"
#include "support/expected.h"
#include "support/symbol.h"

namespace opweld {

using Shape = std::vector<Dim>;

// The product of all sizes; 1 for a scalar's empty shape.
Dim num_elements(const Shape& shape);

// Distance, in elements, between neighbours along each axis of a dense row-major tensor.
std::vector<Dim> row_major_strides(const Shape& shape);

// "[b, s, 384]"
std::string to_string(const Shape& shape);

// The inverse of to_string().
Expected<Shape> parse_shape(std::string_view text, const SymbolTable& symbols);

// Whether some size is Dim::overflow().
bool has_overflow(const Shape& shape);

// The sizes under given values of the symbols; fails as Dim::evaluate does, naming the axis.
Expected<std::vector<int64_t>> evaluate(const Shape& shape, const Bindings& bindings);

Shape substitute(const Shape& shape, const Bindings& bindings);

}  // namespace opweld
