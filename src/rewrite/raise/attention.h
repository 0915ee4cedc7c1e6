// Finds attention in primitive operators: softmax(mask(scale * Q K^T)) V.
#pragma once

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

// Recognised by meaning, in any spelling of
//   the scale     a product with or a quotient by a constant, of the scores, of Q, of K or of
//                 several of them; a soft cap, c * tanh(scores / c)
//   the mask      see match_attention_scores()
//   the weights   a softmax over the keys; 0 in rows in which all scores, or all that is added to
//                 them, are -inf; 0 where they are NaN
//   the keys      transposed by any chain of views
//   the heads     on an axis of their own, or together with the batch ([B * H, S, D]); key and
//                 value heads repeated (without_repeated_heads()) or broadcast from one
//   the rounding  scores and weights cast between f32 and a half type: the operator computes in f32
//                 throughout and rounds once, so that it is no less accurate
// The scores and weights must be read by nothing else. Not raised: a softmax over another axis, a
// scale that is no constant or stands around a mask, a finite fill in place of scores.
//
// A row whose scores are all -inf is NaN in a softmax and zeros in ONNX's Attention; the raised
// operator gives zeros, with or without a guard. A row of NaN for another reason, a score that is
// NaN or +inf, stays NaN, or is zeros by zero_nan_rows behind a guard that asks for NaN. NaN and
// infinities of keys that a mask hides by -inf, in their scores or in V, no longer reach the row,
// nor do those in V where a guard makes all weights 0.
Status raise_attention(Graph& graph);

}  // namespace opweld
