// Constants in the layout that a kernel reads them in.
#pragma once

#include "graph/tensor.h"
#include "support/expected.h"
#include "tile/tile_ir.h"

namespace opweld {

// [.., K, N] (or [.., N, K] when param.packed_from_transposed) to panels [.., ceil(N / c), K, c] of
// c = param.packed_columns columns, padded with zero bytes. With p = param.packed_parts the columns
// are those of p matrices side by side, to panels [.., ceil(N / p / (c / p)), K, p, c / p].
Expected<Tensor> pack_panels(const Tensor& matrix, const tile::Param& param);

}  // namespace opweld
