// Inputs to run a model on where nobody has given any.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "graph/tensor.h"
#include "support/expected.h"
#include "support/symbol.h"

namespace opweld {

// Token ids that fit the table they look into, masks of ones, floats uniform in [-1, 1); the same
// for the same seed.
Expected<Tensor> example_input(const Value* input, const Bindings& sizes, unsigned seed);

// For all inputs of the graph.
Expected<std::vector<Tensor>> example_inputs(const Graph& graph, const Bindings& sizes,
                                             unsigned seed);

}  // namespace opweld
