// Structural checks that hold between any two passes.
#pragma once

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

// Def before use, use lists that match operands, outputs that exist, ids unique, contents of
// matching length, input names unique. The first violation is named with its node.
Status verify_structure(const Graph& graph);

}  // namespace opweld
