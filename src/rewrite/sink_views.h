// Moves operators of one operand in front of the views between them and a product.
//
//   gelu(reshape(transpose(matmul(a, b) + c)))  ->  reshape(transpose(gelu(matmul(a, b) + c)))
//
// A product is computed in the order of its own rows and columns, and what is done to its elements
// there costs nothing. Behind a transpose or a reshape the same operator walks another space, which
// no schedule holds together with that of the product: it would be a kernel of its own.
// Convolutions end in such views (channels go before positions), and so do the products of
// exporters that flatten their rows. Moved, the views meet those of whoever reads them, and often
// cancel.
#pragma once

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

// Exact: every element goes through the same operators. Moved are pointwise operators whose other
// operands are single numbers, past reshapes and transposes that nothing else reads, where a matmul
// lies behind these and other pointwise operators.
Status sink_views(Graph& graph);

}  // namespace opweld
