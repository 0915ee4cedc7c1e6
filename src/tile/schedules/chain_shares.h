// How the rows of a chain are shared out among tasks, for whatever number of rows.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "support/dim.h"

namespace opweld::tile {

// What that follows from.
struct ChainSizes {
  Dim rows;
  std::int64_t cores = 1;
  std::int64_t block_rows = 0;  // a task's at the most
  std::int64_t tile_rows = 1;

  bool operator==(const ChainSizes&) const = default;
};

// Blocks of rows of equal size, where tasks share out columns as well.
struct RowBlocks {
  Dim rows;  // of a block
  Dim count;
};
RowBlocks row_blocks(const ChainSizes& sizes);

// Shares of rows of equal size, as many for every core. A few rows beyond whole tiles take less
// than one more tile, and all wait for the task that has most.
struct RowShares {
  Dim share;  // 0 where there are no rows
  Dim rows_per_task;
  Dim tasks;
};
Dim share_of_rows(const ChainSizes& sizes);
RowShares row_shares(const ChainSizes& sizes);

// Both, found out once for equal sizes: kernels of a model have few, and quotients of symbols take
// longer to make than the loops of a kernel.
class ChainShares {
 public:
  const RowBlocks& row_blocks(const ChainSizes& sizes);
  const RowShares& row_shares(const ChainSizes& sizes);

 private:
  std::vector<std::pair<ChainSizes, RowBlocks>> row_blocks_;
  std::vector<std::pair<ChainSizes, RowShares>> row_shares_;
};

}  // namespace opweld::tile
