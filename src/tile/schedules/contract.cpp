// Schedule `contract`: one matmul with whatever pointwise work reads its result.
//
//   grid batch..., n in N step NB, m in M step MB
//     for each block of the depth but the last
//       for panels, for row tiles:  acc <- c; dot acc += a . b; c <- acc
//     for panels, for row tiles:    acc <- c or 0; dot acc += a . b;
//                                   store y <- epilogue(acc, bias, residual, ...)
//
// The epilogue is an expression over the register tile, evaluated by the element builder, so it is
// not limited to known forms. The left operand is read in place when it is a strided view of f32 or
// f64 data and otherwise packed row by row, which is where a prologue runs; a constant right
// operand comes packed in panels, any other is packed by the task. Rows that do not fill a register
// tile get smaller tiles of their own (powers of two), so nothing outside the operands is read.
//
// A gate pair, y = act(x [Wg | Wu] [.., :N]) * (x [Wg | Wu])[.., N:], walks the columns of y. Its
// weights are packed so that one register tile holds the same columns of both products (see
// Param::packed_parts), and the epilogue reads either. The same holds the elements of a head in
// pairs, whatever their order, for the rotary embedding that turns them (see head_segments.h).
//
// Weights that are stored in f16 or bf16 and multiplied in f32 stay so: a cast of a constant is a
// prologue of the right operand. A few rows have it done in the loads of the micro-kernel, many by
// the task, a panel in a block of depth at a time, for all its rows.
//
// On a matrix unit (see on_matrix_unit) tiles are MatrixDots: their sums lie in cache buffers from
// the first, the left operand is packed as bf16, or read in place by a single tile of rows, weights
// come in pairs of depth padded with zeros, and the last tile of rows has as many as there are. One
// form serves all numbers of rows, since one layout of the weights must. A panel goes through the
// whole block of depth before the next one comes, some of it at a time:
//
//     pack a block of depth of the rows
//     for panels, for parts of the depth, for row tiles:  c += a . b; after the last, y <- ...
//
// A grouped_matmul multiplies each row by the matrix of its group. Tasks are the same; inside one,
// each group that has rows in its block is multiplied by itself (see row_groups.h):
//
//     starts <- where each group starts, checked
//     for each block of the depth, for g in groups with rows in the block:  as above, with b[g]
//
// Which rows are of which group may be sorted out by the kernel itself (see row_sort.h), and rows
// of the result that are looked up are so by the last task of a block of columns to arrive (see
// collected_rows.h):
//
//     keep order, counts <- sort of the rows by group
//     ...
//     arrive at the block of columns; the last:  for rows of the output:  y <- f(d[place[..]], ...)
//
// Reductions of rows, which tasks have some columns of, are put together by the last task of a
// block of rows to arrive (see row_statistics.h).
#include "tile/schedules/collected_rows.h"
#include "tile/schedules/contract_task.h"
#include "tile/schedules/row_sort.h"
#include "tile/schedules/schedules.h"

namespace opweld::tile {

namespace {

// What a kernel has beside its product.
struct Beside {
  RowSort sort;
  std::optional<RowStatistics> statistics = {};
  std::optional<CollectedRows> collected = {};
};

// Every task has a block of rows and a block of columns.
Status emit_grid(GroupLowering& lowering, const Contraction& contraction, ContractTask& task,
                 std::int64_t block_rows, Beside& beside) {
  ProgramBuilder& program = lowering.program();
  IndexMath& math = lowering.math();
  ContractTask::Place place;
  for (std::size_t axis = 0; axis < contraction.batch.size(); ++axis) {
    place.batch.push_back(lowering.grid(fmt::format("b{}", axis), contraction.batch[axis]));
  }
  // Bounds of groups are checked where nothing is computed, too; and a row of no columns has
  // statistics.
  const Dim least_rows = contraction.grouped ? 1 : 0;
  const Dim least_columns = contraction.grouped || beside.statistics ? 1 : 0;
  const Dim rows = max(contraction.rows, least_rows);
  place.column0 = lowering.grid("n0", max(contraction.columns, least_columns), task.block_width());
  place.row0 = lowering.grid("m0", rows, block_rows);
  place.row_count = program.min(program.sub(contraction.rows, place.row0), block_rows);
  if (beside.sort.node != nullptr) {
    ExprPool& exprs = program.exprs();
    const auto is_zero = [&](Expr at) { return exprs.binary(ExprKind::Eq, at, math.constant(0)); };
    OPWELD_CHECK(
        keep_sorted(lowering, beside.sort,
                    exprs.binary(ExprKind::And, is_zero(place.column0), is_zero(place.row0))));
  }
  OPWELD_CHECK(task.emit(place));
  if (beside.collected) {
    lowering.elements().undefine(contraction.result);
    const Expr left = program.sub(contraction.columns, place.column0);
    return beside.collected->collect(
        {math.div(place.column0, Dim(task.block_width())), place.column0,
         program.min(left, task.block_width()), task.block_width()},
        ceil_div(rows, Dim(block_rows)));
  }
  if (!beside.statistics) return {};
  return beside.statistics->combine({place.batch, place.row0}, place.row_count);
}

}  // namespace

Expected<LoweredKernel> lower_contract(const Graph& group, const LowerOptions& options,
                                       std::string name) {
  OPWELD_TRY(Contraction contraction, find_contraction(group));
  if (!is_float(contraction.result->dtype())) return fail("integer matmuls are run by a call");
  Beside beside{find_row_sort(group)};
  OPWELD_TRY(RowCollection collection, find_row_collection(group, beside.sort.others));
  OPWELD_TRY(RowReductions reductions,
             find_row_reductions(collection.before, collection.wanted, contraction));
  if (collection.collects() && !reductions.reductions.empty()) {
    return fail("it reduces rows and looks up others");
  }
  GroupLowering lowering(group, options, std::move(name));
  ContractTask::Form form;
  form.on_matrix_unit = on_matrix_unit(contraction, options);
  request_packed_weights(lowering, contraction, form.on_matrix_unit);
  lowering.bind_params();
  form.strided_rows = strided_rows(lowering, contraction, form.on_matrix_unit);
  const DType compute = compute_dtype(contraction.result->dtype());
  const ContractSizes sizes = {contraction.rows,
                               contraction.columns,
                               multiplied_depth(contraction, form.on_matrix_unit),
                               /*packs_rows=*/!form.strided_rows.has_value(),
                               contraction.parts,
                               form.on_matrix_unit};
  form.blocking = contract_blocking(*options.target, compute, sizes, options.blocking);
  form.known_rows = known_block_rows(contraction, form.blocking);
  if (!reductions.reductions.empty()) {
    beside.statistics.emplace(lowering, contraction, std::move(reductions), form.blocking);
    form.statistics = &*beside.statistics;
  }
  const std::int64_t block_rows = form.blocking.rows;
  const Dim block_width(form.blocking.columns / contraction.parts);
  if (collection.collects()) {
    beside.collected.emplace(lowering, std::move(collection),
                             ceil_div(max(contraction.columns, Dim(1)), block_width));
  }
  form.store = [&](const DomainOutput& output, const ContractElement& element) {
    if (beside.collected && beside.collected->takes(output)) {
      return beside.collected->store(output, element.index, element.inside);
    }
    return element.next ? lowering.store_interleaved(output, element.index, *element.next)
                        : lowering.store(output, element.index, element.inside);
  };
  ContractTask task(lowering, contraction, std::move(form));
  OPWELD_CHECK(emit_grid(lowering, contraction, task, block_rows, beside));
  LoweredKernel kernel = lowering.finish();
  if (!options.draft) {
    kernel.choices = {contract_class(contraction, sizes),
                      contract_candidates(*options.target, compute, sizes)};
  }
  return kernel;
}

}  // namespace opweld::tile
