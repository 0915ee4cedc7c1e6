// Common-subexpression elimination: of nodes with the same operator, operands and attributes one
// stays.
#pragma once

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

Status eliminate_common_subexpressions(Graph& graph);

}  // namespace opweld
