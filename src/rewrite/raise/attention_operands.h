// What an attention can say by its attributes, instead of having it computed before.
#pragma once

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

// Of every attention, however it came into the graph:
//
//   the scale   queries or keys that a constant multiplies, behind reshapes and transposes: the
//               product is the attention's scale instead. So a projection is merged with others
//               (merge_projections.h) whatever follows it in the model. Rounded once less.
//   the heads   keys and values that are repeated for the queries which share them
//               (repeated_heads.h)
//   the mask    what it says of the distance of a query from a key alone, causal and windows of
//               constant width, with whatever else it says left as a mask. Masks are bools joined
//               by `and`, and selections by these between 0, or another mask, and -inf; or the
//               lowest number, if every query sees a key and nothing else hides any.
//
// A factor must be read by this attention alone. Masks beside lengths or a paged cache stay: there
// the last query stands at the last valid key. What a mask hides stays hidden, and no more.
Status simplify_attention_operands(Graph& graph);

}  // namespace opweld
