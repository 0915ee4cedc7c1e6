// Constants in the layout that a kernel reads them in.
#pragma once

#include "graph/tensor.h"
#include "support/expected.h"
#include "tile/tile_ir.h"

namespace opweld {

// [.., K, N] (or [.., N, K] when param.packed_from_transposed) to panels [.., ceil(N / c), K, c] of
// c = param.packed_columns columns, padded with zero bytes.
Expected<Tensor> pack_panels(const Tensor& matrix, const tile::Param& param);

}  // namespace opweld
