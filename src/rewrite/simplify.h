// Simplification: tables of rules, each an operator replaced by a cheaper one of equal value.
//
// Every rule is exact: bit-identical results for every input, NaN, infinities and signed zeros
// included (which NaN a NaN is, is not looked at). So x * 0 stays, and so does x + 0, which turns
// -0 into +0. The argument for each rule stands beside it.
#pragma once

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

// Until no rule applies.
Status simplify(Graph& graph);

}  // namespace opweld
