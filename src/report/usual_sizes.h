// Sizes to show figures at, where nobody has named any.
#pragma once

#include <cstdint>

#include "graph/graph.h"
#include "support/symbol.h"

namespace opweld {

// 1 for a batch and 128 for anything else, or what comes closest among the values it may take.
std::int64_t usual_size(const SymbolInfo& symbol);

// The same for every symbol of the graph's inputs.
Bindings usual_sizes(const Graph& graph);

}  // namespace opweld
