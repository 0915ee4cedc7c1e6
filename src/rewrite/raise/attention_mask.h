// Masks of an attention that say how far a query may look, in part or in whole.
#pragma once

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

// Moves what the mask of the attention says of the distance of a query from a key into the
// attributes `causal`, `window_left` and `window_right`, and what is left of it into `mask`, null
// if there is nothing; a selection between 0 and -inf becomes the bool that it is made by. False,
// and all as it was, where the mask says no such thing, or says it with a number that stands for
// -inf only under conditions which are not certain.
Expected<bool> take_mask(Graph& graph, Node& attention, Attributes& attributes, Value*& mask);

}  // namespace opweld
