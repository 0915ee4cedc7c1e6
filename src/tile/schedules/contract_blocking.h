// Block sizes of the `contract` schedule, from the target descriptor.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "graph/dtype.h"
#include "support/dim.h"
#include "target/target.h"
#include "tile/blocking.h"

namespace opweld::tile {

// A task computes up to rows x columns of the result; inside it the depth is cut into blocks, and a
// register tile of tile_rows x tile_columns accumulates one block.
struct ContractBlocking {
  int tile_rows = 0;
  int tile_columns = 0;      // also the width of a packed panel; of all parts
  std::int64_t rows = 0;     // multiple of tile_rows
  std::int64_t columns = 0;  // multiple of tile_columns
  std::int64_t depth = 0;    // of one block
  // On a matrix unit, of one dot: so much of a panel stays in the first-level cache while the rows
  // of the task pass by. Else 0.
  std::int64_t dot_depth = 0;

  bool operator==(const ContractBlocking&) const = default;
};

// What is to be multiplied: [rows, depth] . [depth, columns], the latter `parts` times.
struct ContractSizes {
  Dim rows;
  Dim columns;
  Dim depth;
  bool packs_rows = false;  // each task packs its rows of the left operand
  int parts = 1;            // matrices of which a register tile holds the same columns
  bool on_matrix_unit = false;
};

// Register tile: twelve accumulators (24 with 32 registers), the smaller side of the tile held in
// registers; that many hide the latency of the multiply-add and leave room for the operands. Depth:
// whole up to 1536, since accumulators that stay in registers beat a panel that stays in L1; longer
// ones in blocks of 384. Rows: a block of A and the panels of B that meet it stay in the
// second-level cache together. Columns: more of them where each task packs its rows of A first, so
// that they are packed less often.
//
// On a matrix unit a tile is what a MatrixDot computes, and the depth counts as padded to its
// steps. The panel of B should stay in the first-level cache while A passes by, so a dot takes up
// to 512 of the depth, for which sums go through memory. A block of depth is as much as lets A's
// block stay in the second-level cache, and a panel goes through all of it before the next one
// comes.
//
// What `chosen` says replaces each of these, its depth that of a dot on a matrix unit; the rest
// follows from it.
ContractBlocking contract_blocking(const Target& target, DType compute, const ContractSizes& sizes,
                                   const Blocking& chosen = {});

// What else is worth a try: each differs from the default in one of its sizes, and from all others
// in what it comes to.
std::vector<Blocking> contract_candidates(const Target& target, DType compute,
                                          const ContractSizes& sizes);

// Rows and vectors of the register tiles that may beat the default: as many accumulators in other
// proportions, of which wide ones suit few rows and narrow ones few columns.
std::vector<std::pair<int, int>> register_tiles(const Target& target);

// Width of the panels that a right operand of `columns` columns is packed into for vectors: as many
// of them as pad the fewest columns. They are shared out evenly among the parts.
int packed_columns(const Target& target, DType compute, const Dim& columns, int parts,
                   const Blocking& chosen = {});

}  // namespace opweld::tile
