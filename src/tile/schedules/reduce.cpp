// Schedule `reduce`: reductions over outer or middle axes, the last axis kept.
//
//   grid kept axes but the last, c in n step chunk
//     for j in min(chunk, n - c) vector          a lane is a column; it adds up its own elements
//       for k in reduced axes                    one pass per level of reductions
//         load ...; map ...; reduce q <- sum(...)
//       store y[.., c + j] <- ...
//
// Later passes compute values again instead of keeping columns on chip: nothing is contracted, so
// twice computed is equally computed.
#include "tile/schedules/schedules.h"
#include "tile/schedules/staged_reduction.h"

namespace opweld::tile {

namespace {

// Columns of one task.
constexpr std::int64_t kChunk = 128;

}  // namespace

Expected<LoweredKernel> lower_reduce(const Graph& group, const LowerOptions& options,
                                     std::string name) {
  OPWELD_TRY(StagedReduction stages, StagedReduction::analyze(group));
  const Shape& domain = stages.domain();
  const std::size_t last = domain.size() - 1;
  if (stages.is_reduced(last)) return fail("it reduces the last axis");
  GroupLowering lowering(group, options, std::move(name));
  lowering.bind_params();
  Index row(domain.size(), lowering.math().constant(0));
  for (std::size_t axis = 0; axis < last; ++axis) {
    if (!stages.is_reduced(axis)) {
      row[axis] = lowering.grid(fmt::format("i{}", axis), domain[axis]);
    }
  }
  OPWELD_CHECK(lowering.chunked_vector("j", domain[last], kChunk, 1, [&](Expr position) {
    row[last] = position;
    const auto columns = [&](const StagedReduction::ColumnBody& body) {
      Index index = row;
      return walk_reduced(lowering, stages, index, 0, domain.size(), kNoExpr, body);
    };
    return stages.emit(lowering, row, columns, {});
  }));
  return lowering.finish();
}

}  // namespace opweld::tile
