// Small questions that the raising passes ask of a graph.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace opweld {

// The node that makes the value, if it is this operator; else null.
Node* made_by(const Value* value, std::string_view op);

// The number, if the value is a constant of one element (a float or an integer).
std::optional<double> scalar_constant(const Value* value);

// Read once, and by a node rather than as an output of the model: nobody misses it when it goes.
bool has_one_reader(const Value* value);

// The operand beside the constant of a product with a scalar constant (in either order), or of a
// quotient by one; `factor` receives what the operand is multiplied by.
Value* scaled_operand(const Node& node, double& factor);

// A transpose that swaps the last two axes and leaves the rest.
bool swaps_last_axes(const Node& transpose);

}  // namespace opweld
