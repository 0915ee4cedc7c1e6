// Block sizes that the `contract` schedule chooses, over many shapes and machines.
#include "tile/schedules/contract_blocking.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace opweld::tile {
namespace {

Target machine(int cores, int registers, std::int64_t l2_bytes) {
  Target target;
  target.cores = cores;
  target.vector_registers = registers;
  target.vector_bits = registers == 32 ? 512 : 256;
  target.l2_bytes = l2_bytes;
  return target;
}

ContractBlocking blocking_of(const Target& target, std::int64_t rows, std::int64_t columns,
                             std::int64_t depth) {
  return contract_blocking(target, DType::F32, {Dim(rows), Dim(columns), Dim(depth)});
}

std::int64_t ceil_of(std::int64_t value, std::int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

TEST(ContractBlocking, BlocksAreWholeTilesAndFitTheCache) {
  for (const int registers : {16, 32}) {
    for (const std::int64_t l2_bytes : {256 << 10, 1 << 20, 2 << 20}) {
      for (const std::int64_t depth : {1, 7, 384, 1536, 1537, 4096}) {
        for (const std::int64_t rows : {1, 5, 128, 204, 205, 1000}) {
          const Target target = machine(4, registers, l2_bytes);
          const ContractBlocking blocking = blocking_of(target, rows, 768, depth);
          EXPECT_EQ(blocking.rows % blocking.tile_rows, 0);
          EXPECT_EQ(blocking.columns % blocking.tile_columns, 0);
          EXPECT_GE(blocking.depth, 1);
          EXPECT_LE(blocking.depth, depth);
          // One tile of rows is the least there can be.
          EXPECT_LE(std::min(blocking.rows - blocking.tile_rows, rows) * blocking.depth * 4,
                    l2_bytes / 2);
        }
      }
    }
  }
}

// The columns of one matmul over the threads: 18 panels in pairs would be 10 for one of two threads
// and 8 for the other.
TEST(ContractBlocking, NoThreadHasMoreThanItsShareOfColumns) {
  for (const int cores : {1, 2, 3, 4, 8, 16}) {
    const Target target = machine(cores, 32, 2 << 20);
    const int width = packed_columns(target, DType::F32, Dim(4096), 1);
    for (std::int64_t panels = 1; panels <= 200; ++panels) {
      const ContractBlocking blocking = blocking_of(target, 128, panels * width, 384);
      const std::int64_t each = blocking.columns / width;
      const std::int64_t busiest = ceil_of(ceil_of(panels, each), cores) * each;
      const std::int64_t share = ceil_of(panels, cores);
      // Within a twelfth of what single panels would give.
      EXPECT_LE(12 * (busiest - share), share) << panels << " panels on " << cores << " cores";
    }
  }
}

}  // namespace
}  // namespace opweld::tile
