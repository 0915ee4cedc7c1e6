// Dead-code elimination: nodes whose results nobody reads go.
#pragma once

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

Status eliminate_dead_code(Graph& graph);

}  // namespace opweld
