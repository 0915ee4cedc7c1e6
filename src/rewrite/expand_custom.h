// Custom operators that have a body are replaced by it, before any other pass looks at the graph.
//
// So whatever knows the operators of a body (folding, raising, fusion) serves custom operators,
// too. The nodes of the body have the name that the operator has in the user's model. What is a
// composite of ours stays whole, since schedules know those by name.
#pragma once

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

Status expand_custom_operators(Graph& graph);

}  // namespace opweld
