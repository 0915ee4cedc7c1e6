// Schedule `row`: reductions over the last axis (and any others), with pointwise work between:
// norms, softmax, statistics.
//
//   grid kept axes                              every row is one task
//     for columns vector                        one pass per level of reductions; the row stays on
//     chip
//       load ...; map ...; store row[j] <- t; reduce q <- sum(...)
//     ...
//     for columns vector
//       store y[row, j] <- ...
#include "tile/schedules/schedules.h"
#include "tile/schedules/staged_reduction.h"

namespace opweld::tile {

Expected<LoweredKernel> lower_row(const Graph& group, const LowerOptions& options,
                                  std::string name) {
  OPWELD_TRY(StagedReduction stages, StagedReduction::analyze(group));
  const Shape& domain = stages.domain();
  if (!stages.is_reduced(domain.size() - 1)) return fail("it does not reduce the last axis");
  GroupLowering lowering(group, options, std::move(name));
  lowering.bind_params();
  lowering.store_past_caches();
  Index row(domain.size(), lowering.math().constant(0));
  for (std::size_t axis = 0; axis < domain.size(); ++axis) {
    if (!stages.is_reduced(axis)) {
      row[axis] = lowering.grid(fmt::format("i{}", axis), domain[axis]);
    }
  }
  OPWELD_CHECK(stages.emit(lowering, row, row_columns(lowering, stages, row),
                           {.keep_rows = true, .prefetch = true}));
  return lowering.finish();
}

}  // namespace opweld::tile
