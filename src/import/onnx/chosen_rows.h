// NonZero, computed without knowing how many places it finds.
//
// A mixture of experts that was traced picks, for each expert, the tokens that chose it, computes
// them, and adds them to the result at the places that they came from:
//
//   slot, token = NonZero(mask)            mask [slots, tokens], true where a token chose the
//   expert rows = Gather(x, token)                x [tokens, ..] rows = expert(rows) * Gather(w,
//   ..)    w [tokens, slots, ..] y = y + Scatter(rows at token)
//
// How many rows there are is in the data. What becomes of them is in the model: as long as nothing
// mixes rows, and all end where they began, it can be computed for all tokens, and those that were
// not chosen add nothing:
//
//   y = y + sum over slots of (mask ? expert(x) * w : 0)
//
// That is what the importer makes of it, at every level of fusion and in strict numerics too. It is
// exact, whatever the rows that were not chosen overflow to, but for the sign of a zero; and it is
// more work, unless the experts are then found (rewrite/raise/experts.h) and merged.
//
// Taken in are a mask of one or two axes; gathers of all rows by `token`, or of rows of a slot by
// both, along two axes or along one that has both; pointwise operators, matmuls by matrices of no
// rows of their own, reshapes, transposes, slices, concatenations and expansions that leave the
// rows apart; and ScatterElements and ScatterND, without a reduction or as a sum.
#pragma once

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

// The number of places that the `index`-th node of a graph, a NonZero, finds; and whether a size is
// such a number.
Dim nonzero_count(std::size_t index);
bool is_nonzero_count(const Dim& size);

// Replaces all NonZero in the graph. The error names one that cannot be, and why.
Status compute_chosen_rows(Graph& graph);

}  // namespace opweld
