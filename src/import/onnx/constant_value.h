// Values that are known when a model is imported.
#pragma once

#include <optional>

#include "graph/graph.h"
#include "graph/tensor.h"

namespace opweld {

// The value, if it is a constant, or computed from constants or known sizes and small: exporters
// leave such chains where an operand decides a shape or a branch. Bounded in work and depth.
std::optional<Tensor> constant_value(const Value& value);

}  // namespace opweld
