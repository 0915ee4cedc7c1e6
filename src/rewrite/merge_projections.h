// Matmuls that read the same left operand become one over their weights side by side.
//
// The projections of an attention (Q, K, V) and the two of a gated feed-forward (gate and up) each
// read the same activations. One matmul reads them once and is one kernel:
//
//   q = matmul(x, Wq) + bq      m = matmul(x, [Wq | Wk | Wv]) + [bq | bk | bv]
//   k = matmul(x, Wk) + bk  ->  q = slice(m), k = slice(m), v = slice(m)
//   v = matmul(x, Wv) + bv
//
// Every element of the result sums the same products in the same order as before, and gets the same
// bias, so nothing changes by a bit. Where only some have a bias, the others get -0.0, which adds
// nothing to any number (0.0 would turn -0.0 into 0.0).
//
// A slice moves nothing if its reader takes it in as an index map. What reads a matmul's result in
// its epilogue, element by element, would lose that place, so merged are only
//
//   - projections that are each read once, behind reshapes and transposes, by an operator that
//     begins a kernel of its own: attention, rope, a matmul, a norm, a softmax, a concatenation;
//   - two of equal width that pointwise operators alone bring together (act(g) * u): the schedule
//     `contract` holds such a pair side by side in one register tile, epilogue included.
//
//   - projections that are all split into heads of the same size, which the matmul stores one by
//     one, whoever reads them, turned and transposed if they are (see
//     tile/schedules/head_segments.h).
//
// Refused are weights that are not constant, have batch axes, are read by something else as well,
// or are empty; and a projection that is an output of the model as it is, which would have to be
// copied.
#pragma once

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

Status merge_projections(Graph& graph);

}  // namespace opweld
