// Constant folding: nodes that read constants alone, or of which shape rules know all elements, are
// evaluated now.
#pragma once

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

// By the operators' own evaluation. A result much larger than what it is made from (an expanded
// scalar) stays a computation, so that files do not grow in memory. Nodes whose evaluation fails
// are left for the run to report.
//
// A cast of large weights from f16 or bf16 to f32 that only a matmul reads, behind views or not, is
// left in front of it, behind what becomes of the views (see ops/stored_weights.h).
Status fold_constants(Graph& graph);

}  // namespace opweld
