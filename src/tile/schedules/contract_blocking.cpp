#include "tile/schedules/contract_blocking.h"

#include <algorithm>

namespace opweld::tile {

namespace {

constexpr std::int64_t round_down(std::int64_t value, std::int64_t multiple) {
  return std::max(multiple, value / multiple * multiple);
}

// Two vectors a row leave 16 - 12 registers for two of B, one of A and one spare at 6 rows; with 32
// registers 14 rows of two vectors, or 6 of four, are the tiles that keep both FMA ports fed.
constexpr int kVectorsPerRow = 2;

}  // namespace

int packed_columns(const Target& target, DType compute) {
  return kVectorsPerRow * target.lanes(byte_size(compute));
}

ContractBlocking contract_blocking(const Target& target, DType compute, const Dim& rows,
                                   const Dim& columns, const Dim& depth) {
  const std::int64_t element = byte_size(compute);
  ContractBlocking blocking;
  blocking.tile_rows = target.vector_registers >= 32 ? 14 : 6;
  blocking.tile_columns = packed_columns(target, compute);

  // Half of L1 for the panel of B that every row tile of the block reads again.
  const std::int64_t longest =
      round_down(target.l1_bytes / 2 / (element * blocking.tile_columns), 64);
  // Even blocks rather than full ones and a short rest.
  const std::int64_t total = depth.constant().value_or(longest);
  const std::int64_t blocks = std::max<std::int64_t>(1, (total + longest - 1) / longest);
  blocking.depth = std::max<std::int64_t>(1, (total + blocks - 1) / blocks);

  blocking.rows = std::min<std::int64_t>(
      round_down(target.l2_bytes / 2 / (element * blocking.depth), blocking.tile_rows),
      round_down(256, blocking.tile_rows));
  if (const auto known = rows.constant(); known && *known < blocking.rows) {
    blocking.rows = (*known + blocking.tile_rows - 1) / blocking.tile_rows * blocking.tile_rows;
    blocking.rows = std::max<std::int64_t>(blocking.rows, blocking.tile_rows);
  }

  // Enough tasks for the threads to share evenly, few enough for A's block to be reused.
  constexpr std::int64_t kPanelsPerTask = 6;
  constexpr std::int64_t kTasksPerThread = 4;
  const std::int64_t panels =
      columns.constant() ? (*columns.constant() + blocking.tile_columns - 1) / blocking.tile_columns
                         : kPanelsPerTask;
  const std::int64_t wanted = std::max<std::int64_t>(1, panels / (kTasksPerThread * target.cores));
  blocking.columns =
      std::clamp<std::int64_t>(wanted, 1, 4 * kPanelsPerTask) * blocking.tile_columns;
  return blocking;
}

}  // namespace opweld::tile
