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

namespace {

// Accumulators in flight: enough to hide the latency of an addition. Fixed, since it decides the
// order in which elements are added.
constexpr int kAccumulators = 4;

// Opens serial loops over the reduced axes but the last, then the vector loop over the last.
Status walk_columns(GroupLowering& lowering, const StagedReduction& stages, Index& index,
                    const StagedReduction::ColumnBody& body) {
  const std::size_t last = stages.domain().size() - 1;
  return walk_reduced(
      lowering, stages, index, 0, last, kNoExpr, [&](std::span<const Expr>, Expr outermost) {
        return lowering.vector("j", stages.domain()[last], kAccumulators, [&](Expr position) {
          index[last] = position;
          return body(index, outermost == kNoExpr ? position : outermost);
        });
      });
}

}  // namespace

Expected<LoweredKernel> lower_row(const Graph& group, const LowerOptions& options,
                                  std::string name) {
  OPWELD_TRY(StagedReduction stages, StagedReduction::analyze(group));
  const Shape& domain = stages.domain();
  if (!stages.is_reduced(domain.size() - 1)) return fail("it does not reduce the last axis");
  GroupLowering lowering(group, options, std::move(name));
  lowering.bind_params();
  Index row(domain.size(), lowering.math().constant(0));
  for (std::size_t axis = 0; axis < domain.size(); ++axis) {
    if (!stages.is_reduced(axis)) {
      row[axis] = lowering.grid(fmt::format("i{}", axis), domain[axis]);
    }
  }
  const auto columns = [&](const StagedReduction::ColumnBody& body) {
    Index index = row;
    return walk_columns(lowering, stages, index, body);
  };
  OPWELD_CHECK(stages.emit(lowering, row, columns, /*keep_rows=*/true));
  return lowering.finish();
}

}  // namespace opweld::tile
