// Block sizes of the `contract` schedule, from the target descriptor.
#pragma once

#include <cstdint>

#include "graph/dtype.h"
#include "support/dim.h"
#include "target/target.h"

namespace opweld::tile {

// A task computes up to rows x columns of the result; inside it the depth is cut into blocks, and a
// register tile of tile_rows x tile_columns accumulates one block.
struct ContractBlocking {
  int tile_rows = 0;
  int tile_columns = 0;      // also the width of a packed panel
  std::int64_t rows = 0;     // multiple of tile_rows
  std::int64_t columns = 0;  // multiple of tile_columns
  std::int64_t depth = 0;    // of one block
};

// Register tile: as many accumulators as registers allow beside the operands of one step. Depth: a
// panel block of B stays in the first-level cache. Rows: a block of A stays in half the
// second-level cache.
ContractBlocking contract_blocking(const Target& target, DType compute, const Dim& rows,
                                   const Dim& columns, const Dim& depth);

// Width of the panels a constant right operand is packed into; depends on nothing but the target
// and the compute type, so one packed constant serves every kernel.
int packed_columns(const Target& target, DType compute);

}  // namespace opweld::tile
