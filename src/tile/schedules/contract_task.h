// What one task of a matmul computes: a block of rows by a block of columns of the result, over the
// whole depth. Schedules choose the blocks and say where elements go; this has the loops.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "support/function_ref.h"
#include "tile/schedules/contract_blocking.h"
#include "tile/schedules/contraction.h"
#include "tile/schedules/group_lowering.h"
#include "tile/schedules/head_segments.h"
#include "tile/schedules/held_values.h"
#include "tile/schedules/register_tile.h"
#include "tile/schedules/row_groups.h"
#include "tile/schedules/row_statistics.h"

namespace opweld::tile {

// An element of the result that is at hand: where it is in the result, and in the task.
struct ContractElement {
  Index index;  // of the result, or of what is stored where it is read in parts
  Expr column;
  Expr inside;  // lanes for which there is such a column; kNoExpr: all
  // Of a second element that lies behind this one in the output: store both (store_interleaved).
  std::optional<Index> next = {};
};

// Rows of a task where blocks of rows are those of the blocking (ContractTask::Form::known_rows).
std::optional<std::int64_t> known_block_rows(const Contraction& contraction,
                                             const ContractBlocking& blocking);

class ContractTask {
 public:
  struct Form {
    ContractBlocking blocking;
    bool on_matrix_unit = false;
    // Rows of a task, where that is one number for all tasks, give or take whole register tiles.
    std::optional<std::int64_t> known_rows = {};
    // The left operand where the micro-kernel can read it in place.
    std::optional<StridedOperand> strided_rows = {};
    // What earlier stages of the task left on chip, the left operand perhaps; null: nothing.
    HeldValues* held = nullptr;
    // Of the rows, beside what is stored; null: none.
    RowStatistics* statistics = nullptr;
    // Stores an element of an output of the contraction; called once for every vector of them.
    std::function<Status(const DomainOutput&, const ContractElement&)> store;
  };
  // After bind_params.
  ContractTask(GroupLowering& lowering, const Contraction& contraction, Form form);

  // Which block: positions are absolute, counts at most those of the blocking.
  struct Place {
    Index batch;
    Expr row0 = kNoExpr;
    Expr row_count = kNoExpr;
    Expr column0 = kNoExpr;
    Expr end_column = kNoExpr;  // the block ends there at the latest; kNoExpr: with the last column
  };
  Status emit(Place place);

  // Columns of a task's block, of each part.
  [[nodiscard]] std::int64_t block_width() const { return block_width_; }

 private:
  void clear_partial();
  Expr zero() { return program_.exprs().constant(0, compute_); }

  // One block of the depth.
  Status emit_block(Expr depth0, Expr depth, bool last);
  // The `count` rows from `first` on of the task's, which meet one right operand.
  Status emit_run(Expr first, Expr count, Expr depth0, Expr depth, bool last);
  // The panel meets all rows of the run.
  Status emit_panel(Expr count, Expr panel, Expr depth0, Expr depth, bool last);
  Status emit_row_tiles(Expr count, Expr panel, Expr depth0, Expr depth, bool last);
  // One register tile at row `run_row` of the run's rows and column `panel` of the task's columns.
  Status emit_tile(int rows, Expr run_row, Expr panel, Expr depth0, Expr depth, bool last);
  // A panel in a block of depth, some of the depth after the other (contract_matrix_tiles.cpp).
  Status emit_matrix_panel(Expr count, Expr panel, Expr depth0, Expr depth, bool last);
  Status emit_matrix_tiles(Expr count, Expr panel, Expr depth0, Expr depth, bool last, Access next);
  // `rows` rows at row `run_row` of the run's and column `panel` of the task's columns.
  Status emit_matrix_tile(Expr rows, Expr run_row, Expr panel, Expr depth0, Expr depth, bool last,
                          MatrixDot::Ahead ahead);
  // Of a panel, where there is one block of depth: tiles of the run's rows, one after the other, or
  // one for all of them in turn where a dot takes the whole depth.
  MemoryRef sums_of_panel();

  // The offset of the batch axes of a tensor whose matrices have the given strides.
  Expr batch_offset(const Shape& batch, std::span<const Dim> strides);
  // Held rows that the micro-kernel can read where they are.
  [[nodiscard]] std::optional<HeldRows> rows_on_chip() const;
  DotOperand left_operand(Expr row, Expr depth0);
  // Of the tile of `rows` rows at `row` of the run.
  DotOperand right_operand(int rows, Expr row, Expr panel, Expr depth0, Expr depth, bool last);
  // What that tile fetches of the next panel: as large a share as it has of the run's rows. Weights
  // come from memory or from a cache that cores share, and come at an even pace while all tiles
  // compute; if the first one fetched them all, it would wait for them.
  std::optional<Dot::Ahead> fetched_ahead(int rows, Expr row, Expr panel, Expr depth0, Expr depth,
                                          bool last);
  // Where the panel is that this thread goes on with: beside this one, and behind the task's last
  // one the first of the next block of depth, or of the next columns, which is right but for tasks
  // with other rows and the same columns: these read what has been read.
  Expr panel_after(Expr panel, Expr depth0, bool last);
  // The offset, in packed weights, of the panel at that column of the task's.
  Expr panel_at(Expr column, Expr depth_start);

  Index operand_index(const Value* operand, Expr first, Expr second);
  [[nodiscard]] std::int64_t packed_row_stride() const;
  // Row-major rows x depth block of the left operand, computed as any element is.
  Status pack_rows(Expr depth0, Expr depth);
  // Whether packed weights are stored in another type than they are multiplied in.
  [[nodiscard]] bool has_prologue() const;
  // The panel as it is multiplied, [depth][width]: the prologue of its elements.
  Status widen_panel(Expr panel, Expr depth0, Expr depth);
  // Panels of the right operand: [panel][depth][width], columns past the end filled with zeros.
  Status pack_columns(Expr depth0, Expr depth);

  // Where the sums of a tile lie: row i, column j of all parts.
  using SumAt = FunctionRef<Access(Expr i, Expr j)>;
  // A tile that is complete. It lies in registers, where it is read at constant places, or in
  // memory.
  struct TileSums {
    SumAt at;
    bool in_registers;
    FunctionRef<Status(const TileVectorBody&)> each_vector;  // row i, column j of each part
    FunctionRef<Status(const GroupLowering::LoopBody&)> each_row;
  };
  // Of a register tile of `rows` rows.
  Status store_register_tile(MemoryRef tile, int rows, Expr row, Expr panel);
  // Stores a tile that is complete, at row `row` and column `panel` of the task's.
  Status store_tile(const TileSums& sums, Expr row, Expr panel);
  // The products of a place in the tile, one for each part, which stand at `places` of the result;
  // those of columns past the end, not `inside`, mean nothing.
  Status define_products(SumAt sum_at, Expr i, Expr j, const std::vector<Index>& places,
                         Expr inside);
  // `lane`: the loop over the lanes of one vector, where statistics are wanted.
  Status store_results(SumAt sum_at, Expr i, Expr j, Expr row, Expr panel, Expr lane = kNoExpr);
  // Vectors one by one, since statistics have a number of each.
  Status store_with_statistics(const TileSums& sums, Expr row, Expr panel);
  // Of row m of the result and a column of each part.
  RowStatistics::Place place_of(Expr m, Expr column);
  // contract_heads.cpp: some neighbouring elements of a head and stretch, of all parts.
  struct HeadElements {
    const HeadSegment* segment;  // null: over the result as a whole
    Expr row;                    // of the task's
    Expr column;                 // of the tile's, of each part
    Expr head;                   // of all the matmul's
    Expr within;                 // the stretch
    const ColumnStretch* stretch;
    std::int64_t stretch_start;  // in the head
  };
  Status store_heads(const TileSums& sums, Expr row, Expr panel);
  Status store_segment(const TileSums& sums, Expr row, Expr panel, const HeadSegment* segment);
  Status store_head_elements(SumAt sum_at, Expr tile_row, const HeadElements& elements);
  // Whether the parts of these elements lie side by side in the output.
  [[nodiscard]] bool are_interleaved(const HeadElements& elements,
                                     const DomainOutput& output) const;
  // The index in the result of its row m; column 0.
  Index row_index(Expr m);

  GroupLowering& lowering_;
  ProgramBuilder& program_;
  IndexMath& math_;
  const Contraction& contraction_;
  Form form_;
  const ContractBlocking& blocking_;
  DType compute_;
  bool packs_rows_;
  Dim depth_;                 // as it is multiplied, with what pads it
  int tile_width_;            // columns that a register tile has of each part
  std::int64_t block_width_;  // and a task
  int head_lanes_ = 0;        // so many elements of a head lie in one stretch, from any multiple on
  std::optional<MemoryRef> packed_weights_;
  std::optional<RowGroups> groups_;
  std::optional<MemoryRef> partial_;
  std::optional<MemoryRef> sums_;
  std::optional<MemoryRef> packed_rows_;
  std::optional<MemoryRef> packed_columns_;
  std::optional<MemoryRef> wide_panel_;
  bool reads_wide_panel_ = false;  // the tiles emitted now
  Place place_;
  Expr block0_ = kNoExpr;  // where the block of depth starts
  Expr run0_ = kNoExpr;    // of the task's rows, the first that is multiplied now
  Expr run_rows_ = kNoExpr;
  Expr column_count_ = kNoExpr;
};

// The index [leading..., last] of a tensor whose leading axes were merged into `row`.
Index merged_index(IndexMath& math, const Shape& shape, Expr row, Expr last);

// Whether the matmul goes to the target's matrix unit. That adds in an order of its own and takes
// subnormals for zero, so strict numerics do without. A left operand that the kernel computes is
// f32 there; the unit would have it rounded. `held`: it is computed, but rounded and on chip.
bool on_matrix_unit(const Contraction& contraction, const LowerOptions& options, bool held = false);

// Has the weights packed as the micro-kernel reads them, if they are constant. Before bind_params.
void request_packed_weights(GroupLowering& lowering, const Contraction& contraction,
                            bool on_matrix_unit);

// The left operand as the micro-kernel can read it in place: f32 or f64, strided, rows merged if
// the contraction merges them. On the matrix unit: bf16, each row side by side and without padding,
// and no more of them than one tile has, since others are read better where they are packed. After
// bind_params.
std::optional<StridedOperand> strided_rows(const GroupLowering& lowering,
                                           const Contraction& contraction, bool on_matrix_unit);

// The depth as it is multiplied: a matrix unit has it padded.
Dim multiplied_depth(const Contraction& contraction, bool on_matrix_unit);

}  // namespace opweld::tile
