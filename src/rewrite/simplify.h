// Simplification: a table of rules, each an operator replaced by a cheaper one of equal value.
//
// Every rule is exact: bit-identical results for every input, NaN, infinities and signed zeros
// included. So x * 0 stays, and so does x + 0 (it turns -0 into +0).
#pragma once

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

Status simplify(Graph& graph);

}  // namespace opweld
