// Moves pointwise operators in front of the views between them and a product.
//
//   gelu(reshape(transpose(matmul(a, b) + c)))  ->  reshape(transpose(gelu(matmul(a, b) + c)))
//   transpose(matmul(a, b)) + r                 ->  transpose(matmul(a, b) + transposed back(r))
//
// A product is computed in the order of its own rows and columns, and what is done to its elements
// there costs nothing. Behind a transpose or a reshape the same operator walks another space, which
// no schedule holds together with that of the product: it would be a kernel of its own.
// Convolutions end in such views (channels go before positions), and so do the products of
// exporters that flatten their rows. Moved, the views meet those of whoever reads them, and often
// cancel. A tensor that is read in the order of the view, a residual in NCHW beside products of
// rows in NHWC, is then read through the inverse of it, which is an index map of the kernel's load.
#pragma once

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

// Exact: every element goes through the same operators. Moved are pointwise operators past reshapes
// and transposes that nothing else reads, where a matmul lies behind these and other pointwise
// operators; past a reshape only where the other operands are single numbers.
Status sink_views(Graph& graph);

}  // namespace opweld
