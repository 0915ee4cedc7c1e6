#include "tile/schedules/contract_blocking.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tile/tile_ir.h"

namespace opweld::tile {

namespace {

constexpr std::int64_t round_down(std::int64_t value, std::int64_t multiple) {
  return std::max(multiple, value / multiple * multiple);
}

constexpr std::int64_t ceil_div(std::int64_t value, std::int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

constexpr std::int64_t round_up_to(std::int64_t value, std::int64_t multiple) {
  return ceil_div(value, multiple) * multiple;
}

// A panel of 64 columns, four vectors of 16 lanes, meets tile after tile of rows from a
// second-level cache of 2 MiB: a block of it is 96 KiB, a twentieth; what is left whole is at most
// a fifth.
constexpr std::int64_t kWholeDepth = 1536;
constexpr std::int64_t kDepthBlock = 384;
// A panel of a matrix unit has 32 columns of bf16: so much depth of it is 32 KiB of a first-level
// cache of 48.
constexpr std::int64_t kMatrixDotDepth = 512;

// Of `panels` that lie side by side. Enough tasks for the threads to share evenly, few enough for
// A's block to be read again: of the counts that leave at least `tasks` of them for each of
// `row_blocks`, the one with which the busiest thread has the fewest panels, and of those the
// largest.
std::int64_t panels_per_task(std::int64_t panels, std::int64_t most, std::int64_t threads,
                             std::int64_t tasks, std::int64_t row_blocks = 1) {
  const std::int64_t limit = std::clamp<std::int64_t>(panels / tasks, 1, most);
  std::int64_t best = 1;
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t count = 1; count <= limit; ++count) {
    const std::int64_t busiest = ceil_div(ceil_div(panels, count) * row_blocks, threads) * count;
    if (busiest <= fewest) best = count;
    fewest = std::min(fewest, busiest);
  }
  return best;
}

// One task more than others have is then a quarter of a thread's work at most.
constexpr std::int64_t kTasksPerThread = 4;

// Blocks of equal size rather than a short last one.
std::int64_t equal_blocks(std::int64_t size, std::int64_t most, std::int64_t multiple) {
  return round_up_to(ceil_div(size, ceil_div(size, most)), multiple);
}

ContractBlocking matrix_unit_blocking(const Target& target, const ContractSizes& sizes,
                                      const Blocking& chosen) {
  constexpr std::int64_t kMostRows = 8 * kMatrixRows;
  // Fewer do not hide how long weights take to come.
  constexpr std::int64_t kFewRows = 4 * kMatrixRows;
  // Sums of a task that has several blocks of depth: 512 KiB of 256 rows.
  constexpr std::int64_t kMostPanels = 16;
  // Each task packs its rows again, which takes as long as a few panels.
  constexpr std::int64_t kMostPanelsOfWholeDepth = 64;
  constexpr std::int64_t kMatrixTasksPerThread = 2;
  ContractBlocking blocking;
  blocking.tile_rows = kMatrixRows;
  blocking.tile_columns = kMatrixColumns;
  const std::int64_t most_rows = chosen.rows != 0 ? chosen.rows : kMostRows;
  const auto known_rows = sizes.rows.constant();
  const std::int64_t rows = std::max<std::int64_t>(1, known_rows.value_or(most_rows));
  const bool shares_rows = chosen.rows == 0 && known_rows;
  const std::int64_t share = ceil_div(rows, kMatrixTasksPerThread * target.cores);
  const std::int64_t wanted_rows = shares_rows ? std::clamp(share, kFewRows, most_rows) : most_rows;
  blocking.rows = equal_blocks(rows, round_up_to(wanted_rows, kMatrixRows), kMatrixRows);
  // A's block takes half of the cache.
  const std::int64_t fitting = target.l2_bytes / 2 / (blocking.rows * byte_size(DType::BF16));
  const std::int64_t most_depth = round_down(std::max(fitting, kMatrixDotDepth), kMatrixDepth);
  const std::int64_t depth = std::max<std::int64_t>(1, sizes.depth.constant().value_or(most_depth));
  blocking.depth = equal_blocks(depth, most_depth, kMatrixDepth);
  const std::int64_t dot_depth = chosen.depth != 0 ? chosen.depth : kMatrixDotDepth;
  blocking.dot_depth = equal_blocks(blocking.depth, dot_depth, kMatrixDepth);
  const std::int64_t panels =
      ceil_div(sizes.columns.constant().value_or(0) * sizes.parts, kMatrixColumns);
  const std::int64_t row_blocks = ceil_div(rows, blocking.rows);
  const std::int64_t most_panels = depth <= blocking.depth ? kMostPanelsOfWholeDepth : kMostPanels;
  const std::int64_t tasks = ceil_div(kMatrixTasksPerThread * target.cores, row_blocks);
  blocking.columns =
      (chosen.panels != 0 ? chosen.panels
                          : panels_per_task(panels, most_panels, target.cores, tasks, row_blocks)) *
      kMatrixColumns;
  return blocking;
}

}  // namespace

int packed_columns(const Target& target, DType compute, const Dim& columns, int parts,
                   const Blocking& chosen) {
  const int lanes = target.lanes(byte_size(compute));
  if (chosen.tile_vectors != 0) return chosen.tile_vectors * lanes;
  if (target.vector_registers >= 32) return 4 * lanes;
  return parts == 1 && columns.divisible_by(3 * lanes) ? 3 * lanes : 2 * lanes;
}

ContractBlocking contract_blocking(const Target& target, DType compute, const ContractSizes& sizes,
                                   const Blocking& chosen) {
  if (sizes.on_matrix_unit) return matrix_unit_blocking(target, sizes, chosen);
  const auto& [rows, columns, depth, packs_rows, parts, on_matrix_unit] = sizes;
  const std::int64_t element = byte_size(compute);
  ContractBlocking blocking;
  blocking.tile_columns = packed_columns(target, compute, columns, parts, chosen);
  const int vectors = blocking.tile_columns / target.lanes(byte_size(compute));
  blocking.tile_rows = chosen.tile_rows != 0 ? chosen.tile_rows : vectors == 3 ? 4 : 6;

  const std::int64_t known_depth =
      std::max<std::int64_t>(1, depth.constant().value_or(kWholeDepth));
  blocking.depth = known_depth <= kWholeDepth && depth.is_constant() ? known_depth : kDepthBlock;
  if (chosen.depth != 0) blocking.depth = std::min(chosen.depth, known_depth);

  // Half of the cache for A; the other half is for the panels of B that pass by and for C.
  const std::int64_t fitting = target.l2_bytes / 2 / (element * blocking.depth);
  const bool large_cache = target.l2_bytes >= (1 << 20);
  // Whole tiles of 4 and of 6; the block of C then is 408 KiB of 8 panels of 64 columns, or 50 KiB
  // of 4 of 24.
  const std::int64_t most_rows = large_cache ? 204 : 132;
  const std::int64_t usual_rows = std::min(fitting, most_rows);
  blocking.rows = round_down(chosen.rows != 0 ? chosen.rows : usual_rows, blocking.tile_rows);
  if (const auto known = rows.constant(); known && *known > 0) {
    blocking.rows = equal_blocks(*known, blocking.rows, blocking.tile_rows);
  }

  // Few panels keep C's block small: with 306 KiB of A and a panel of 96 it takes 810 KiB of a
  // cache of 2 MiB; of one of 512, with 198 of A and a panel of 36, 284. Rows that each task packs
  // for itself should serve many columns: 1.2 MiB of two.
  const std::int64_t most_panels = packs_rows ? 16 : large_cache ? 8 : 4;
  const std::int64_t panels = columns.constant().value_or(0) * parts / blocking.tile_columns;
  blocking.columns = (chosen.panels != 0 ? chosen.panels
                                         : panels_per_task(panels, most_panels, target.cores,
                                                           kTasksPerThread * target.cores)) *
                     blocking.tile_columns;
  return blocking;
}

std::vector<std::pair<int, int>> register_tiles(const Target& target) {
  if (target.vector_registers >= 32) return {{6, 4}, {12, 2}, {8, 3}, {3, 8}};
  return {{6, 2}, {4, 3}, {3, 4}};
}

std::vector<Blocking> contract_candidates(const Target& target, DType compute,
                                          const ContractSizes& sizes) {
  const ContractBlocking usual = contract_blocking(target, compute, sizes);
  std::vector<Blocking> candidates;
  std::vector<ContractBlocking> seen = {usual};
  const auto offer = [&](const Blocking& candidate) {
    if (candidates.size() == kMostCandidates) return;
    const ContractBlocking blocking = contract_blocking(target, compute, sizes, candidate);
    if (std::ranges::find(seen, blocking) != seen.end()) return;
    seen.push_back(blocking);
    candidates.push_back(candidate);
  };
  if (!sizes.on_matrix_unit) {
    for (const auto& [rows, vectors] : register_tiles(target)) {
      if (vectors % sizes.parts == 0) offer({.tile_rows = rows, .tile_vectors = vectors});
    }
  }
  const std::int64_t panels = usual.columns / usual.tile_columns;
  const std::int64_t all_panels = std::max<std::int64_t>(
      1, ceil_div(sizes.columns.constant().value_or(0) * sizes.parts, usual.tile_columns));
  offer({.panels = std::min(2 * panels, all_panels)});
  offer({.panels = std::max<std::int64_t>(1, panels / 2)});
  offer({.rows = usual.rows / 2 / usual.tile_rows * usual.tile_rows});
  const std::int64_t step = sizes.on_matrix_unit ? kMatrixDepth : 1;
  const std::int64_t usual_depth = sizes.on_matrix_unit ? usual.dot_depth : usual.depth;
  offer({.depth = round_up_to(usual_depth / 2, step)});
  offer({.depth = 2 * usual_depth});
  offer({.rows = 2 * usual.rows});
  return candidates;
}

}  // namespace opweld::tile
