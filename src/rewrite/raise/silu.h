// Finds silu and swish in primitive operators: x * sigmoid(alpha * x).
#pragma once

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

// The sigmoid may be spelled 1 / (1 + exp(-u)), or the whole x / (1 + exp(-u)); with u = x it is
// silu, with u = alpha * x swish (alpha 1.702: the quick form of gelu). Operands of sums and
// products come in either order. A sigmoid spelled out by itself becomes the operator too: it has
// the same value everywhere, and rounds less.
//
// Not raised: the sigmoid of another value (a gate), a sigmoid that something else reads too, any
// constant but 1.
Status raise_silu(Graph& graph);

}  // namespace opweld
