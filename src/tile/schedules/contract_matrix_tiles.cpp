// The tiles of a task on a matrix unit.
//
// A panel of weights meets the rows of the task `dot_depth` of its depth at a time: so much of it
// stays in the first-level cache while rows pass by, and sums go through memory in between, small
// enough to stay in a cache as well. While it does, the next so much of weights is fetched.
#include "tile/schedules/contract_task.h"

namespace opweld::tile {

Status ContractTask::emit_matrix_panel(Expr count, Expr panel, Expr depth0, Expr depth, bool last) {
  const std::int64_t dot_depth = blocking_.dot_depth;
  const auto at = [&](Expr depth_start) {
    return program_.at_offset(*packed_weights_, panel_at(panel, depth_start));
  };
  const Access next_panel = program_.at_offset(*packed_weights_, panel_after(panel, depth0, last));
  if (blocking_.depth <= dot_depth) {
    return emit_matrix_tiles(count, panel, depth0, depth, last, next_panel);
  }
  // All of the depth but what the last dot takes.
  const Expr before =
      math_.mul(math_.div(math_.sub(depth, math_.constant(1)), Dim(dot_depth)), Dim(dot_depth));
  const Dim bound(blocking_.depth);
  OPWELD_CHECK(lowering_.serial("ks", before, bound, dot_depth, [&](Expr start) {
    const Expr from = math_.add(depth0, start);
    return emit_matrix_tiles(count, panel, from, math_.constant(dot_depth), /*last=*/false,
                             at(math_.add(from, math_.constant(dot_depth))));
  }));
  return emit_matrix_tiles(count, panel, math_.add(depth0, before), math_.sub(depth, before), last,
                           next_panel);
}

Status ContractTask::emit_matrix_tiles(Expr count, Expr panel, Expr depth0, Expr depth, bool last,
                                       Access next) {
  // The dots of a panel share what is to be fetched: as much as one of them reads, in whole lines.
  // Where one dot has all rows, it waits for memory, which gives no more for being asked sooner.
  constexpr std::int64_t kLine = 32;  // elements
  constexpr std::int64_t kLinesOfStep = kMatrixDepth * kMatrixColumns / kLine;
  ExprPool& exprs = program_.exprs();
  const Expr tiles =
      exprs.binary(ExprKind::Max, math_.constant(1),
                   math_.div(math_.add(count, math_.constant(kMatrixRows - 1)), kMatrixRows));
  const Expr lines =
      exprs.binary(ExprKind::Div, math_.add(tiles, math_.constant(kLinesOfStep - 1)), tiles);
  const Expr stride = exprs.select(exprs.binary(ExprKind::Lt, math_.constant(kMatrixRows), count),
                                   math_.mul(lines, Dim(kLine)), math_.constant(0));
  const Expr steps = math_.div(depth, kMatrixDepth);
  return lowering_.serial("i", count, Dim(blocking_.rows), blocking_.tile_rows, [&](Expr run_row) {
    const Expr rest = program_.sub(count, run_row);
    const Expr fetched = program_.mul(math_.div(run_row, kMatrixRows), program_.mul(steps, stride));
    Access start = next;
    start.index.front() = math_.add(start.index.front(), fetched);
    return emit_matrix_tile(program_.min(rest, blocking_.tile_rows), run_row, panel, depth0, depth,
                            last, {.start = std::move(start), .stride = stride});
  });
}

Status ContractTask::emit_matrix_tile(Expr rows, Expr run_row, Expr panel, Expr depth0, Expr depth,
                                      bool last, MatrixDot::Ahead ahead) {
  const int width = blocking_.tile_columns;
  const Expr row = math_.add(run0_, run_row);
  const MemoryRef sums = partial_ ? *partial_ : sums_of_panel();
  Expr start = math_.constant(0);
  if (partial_) {
    // Tiles of the same rows lie one after the other.
    const Expr column = math_.mul(panel, Dim(contraction_.parts));
    start = math_.add(math_.mul(row, Dim(blocking_.columns)), program_.mul(column, rows));
  } else if (blocking_.depth > blocking_.dot_depth) {
    start = math_.mul(run_row, Dim(width));
  }
  const DotOperand a = left_operand(row, depth0);
  MatrixDot dot;
  dot.accumulator = program_.at_offset(sums, start);
  dot.accumulator_row_stride = math_.constant(width);
  dot.from_zero = program_.exprs().binary(ExprKind::Eq, depth0, math_.constant(0));
  dot.a = a.start;
  dot.a_row_stride = a.row_stride;
  dot.b = program_.at_offset(*packed_weights_, panel_at(panel, depth0));
  dot.depth = depth;
  dot.row_count = rows;
  dot.ahead = std::move(ahead);
  program_.matrix_dot(std::move(dot));
  if (!last) return {};
  const auto sum_at = [&](Expr i, Expr j) {
    return program_.at_offset(sums, math_.add(start, math_.add(math_.mul(i, Dim(width)), j)));
  };
  const auto each_row = [&](const GroupLowering::LoopBody& body) {
    return lowering_.serial("r", rows, Dim(blocking_.tile_rows), body);
  };
  const auto each_vector = [&](const TileVectorBody& body) {
    return each_row([&](Expr i) {
      Status status;
      const ProgramBuilder::VectorOptions options{.unroll = tile_width_ / lowering_.lanes(),
                                                  .lanes = lowering_.lanes()};
      program_.vector("j", tile_width_, options, [&](Expr j) {
        const ElementBuilder::Scope scope(lowering_.elements());
        status = body(i, j);
      });
      return status;
    });
  };
  return store_tile({sum_at, /*in_registers=*/false, each_vector, each_row}, row, panel);
}

MemoryRef ContractTask::sums_of_panel() {
  if (!sums_) {
    const bool whole = blocking_.depth <= blocking_.dot_depth;
    const std::int64_t rows = whole ? blocking_.tile_rows : blocking_.rows;
    sums_ = program_.buffer("c", compute_, {rows, blocking_.tile_columns}, Buffer::Space::Cache);
  }
  return *sums_;
}

}  // namespace opweld::tile
