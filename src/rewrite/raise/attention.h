// Finds attention in primitive operators: softmax(mask(scale * Q K^T)) V.
#pragma once

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

// Recognised by meaning, in any spelling of: the scale as a product or a quotient by a constant, on
// the scores, on Q or on K or on several of them; an additive mask in either order of operands; a
// boolean mask as a selection of -inf; keys transposed by any chain of views; key and value heads
// repeated for grouped queries. The scores and weights must be read by nothing else.
//
// A row whose scores are all -inf is NaN in the primitive spelling and zeros in ONNX's Attention;
// the raised operator gives zeros.
Status raise_attention(Graph& graph);

}  // namespace opweld
