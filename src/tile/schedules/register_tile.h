// Register tiles: the rows x columns accumulators of a dot, and the loops that cover a block with
// them.
#pragma once

#include <functional>

#include "tile/schedules/group_lowering.h"

namespace opweld::tile {

// Covers `count` rows with tiles of `full` rows and then, for what is left, one tile for each bit
// of the remainder, so that no tile reaches past the end. `count_known`: the count when it is a
// constant for every task (tiles that cannot occur are not emitted).
using RowTileBody = std::function<Status(int rows, Expr first_row)>;
Status each_row_tile(GroupLowering& lowering, Expr count, std::optional<std::int64_t> count_known,
                     int full, const RowTileBody& body);

// Visits every vector of a rows x columns tile; columns is a multiple of the
// lanes of the compute type.
using TileVectorBody = std::function<Status(Expr row, Expr column)>;
Status each_tile_vector(GroupLowering& lowering, DType compute, int rows, int columns,
                        const TileVectorBody& body);

// Where the panels or rows of a dot's operand begin, and its strides.
struct DotOperand {
  Access start;
  Expr row_stride = kNoExpr;  // left operand only
  Expr depth_stride = kNoExpr;
  std::optional<Dot::Ahead> ahead = {};  // right operand only
};

// acc <- initial(row, column); acc += a . b over `depth`. Returns acc.
Expected<MemoryRef> emit_register_dot(
    GroupLowering& lowering, DType compute, int rows, int columns, const DotOperand& a,
    const DotOperand& b, Expr depth,
    const std::function<Expected<Expr>(Expr row, Expr column)>& initial);

// The same; then finish(row, column, acc element).
Status emit_register_tile(GroupLowering& lowering, DType compute, int rows, int columns,
                          const DotOperand& a, const DotOperand& b, Expr depth,
                          const std::function<Expected<Expr>(Expr row, Expr column)>& initial,
                          const std::function<Status(Expr row, Expr column, Expr value)>& finish);

}  // namespace opweld::tile
