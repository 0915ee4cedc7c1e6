#include "tile/schedules/register_tile.h"

namespace opweld::tile {

Status each_row_tile(GroupLowering& lowering, Expr count, std::optional<std::int64_t> count_known,
                     int full, const RowTileBody& body) {
  ProgramBuilder& program = lowering.program();
  IndexMath& math = lowering.math();
  ExprPool& exprs = program.exprs();
  const Expr full_rows = program.mul(exprs.binary(ExprKind::Div, count, math.constant(full)), full);
  Status status;
  if (!count_known || *count_known >= full) {
    program.serial("i", full_rows, full, [&](Expr row) {
      const ElementBuilder::Scope scope(lowering.elements());
      status = body(full, row);
    });
  }
  const Expr rest = program.sub(count, full_rows);
  int highest = 1;
  while (highest * 2 < full) highest *= 2;
  for (int rows = highest; rows > 0 && status; rows /= 2) {
    if (count_known && ((*count_known % full) & rows) == 0) continue;
    const Expr bit = exprs.binary(ExprKind::And, rest, math.constant(rows));
    const std::int64_t larger_bits = ~(2 * std::int64_t{rows} - 1);
    const Expr done = exprs.binary(ExprKind::And, rest, math.constant(larger_bits));
    program.when(exprs.binary(ExprKind::Ne, bit, math.constant(0)), [&]() {
      const ElementBuilder::Scope scope(lowering.elements());
      status = body(rows, program.add(full_rows, done));
    });
  }
  return status;
}

Status each_tile_vector(GroupLowering& lowering, DType compute, int rows, int columns,
                        const TileVectorBody& body) {
  ProgramBuilder& program = lowering.program();
  const int lanes = lowering.options().target->lanes(byte_size(compute));
  Status status;
  program.unrolled("r", rows, [&](Expr row) {
    program.vector("j", columns, {.unroll = columns / lanes, .lanes = lanes}, [&](Expr column) {
      const ElementBuilder::Scope scope(lowering.elements());
      if (status) status = body(row, column);
    });
  });
  return status;
}

Expected<MemoryRef> emit_register_dot(
    GroupLowering& lowering, DType compute, int rows, int columns, const DotOperand& a,
    const DotOperand& b, Expr depth,
    const std::function<Expected<Expr>(Expr row, Expr column)>& initial) {
  ProgramBuilder& program = lowering.program();
  const MemoryRef tile = program.buffer("acc", compute, {rows, columns}, Buffer::Space::Register);
  OPWELD_CHECK(
      each_tile_vector(lowering, compute, rows, columns, [&](Expr row, Expr column) -> Status {
        OPWELD_TRY(const Expr value, initial(row, column));
        program.store(program.at(tile, {row, column}), value);
        return {};
      }));
  Dot dot;
  dot.accumulator = tile.target;
  dot.a = a.start;
  dot.a_row_stride = a.row_stride;
  dot.a_depth_stride = a.depth_stride;
  dot.b = b.start;
  dot.b_depth_stride = b.depth_stride;
  dot.depth = depth;
  dot.ahead = b.ahead;
  dot.rows = rows;
  dot.columns = columns;
  program.dot(std::move(dot));
  return tile;
}

Status emit_register_tile(GroupLowering& lowering, DType compute, int rows, int columns,
                          const DotOperand& a, const DotOperand& b, Expr depth,
                          const std::function<Expected<Expr>(Expr row, Expr column)>& initial,
                          const std::function<Status(Expr row, Expr column, Expr value)>& finish) {
  ProgramBuilder& program = lowering.program();
  OPWELD_TRY(const MemoryRef tile,
             emit_register_dot(lowering, compute, rows, columns, a, b, depth, initial));
  return each_tile_vector(lowering, compute, rows, columns, [&](Expr row, Expr column) {
    return finish(row, column, program.load(program.at(tile, {row, column})));
  });
}

}  // namespace opweld::tile
