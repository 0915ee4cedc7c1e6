// Kernels side by side: neither feeds the other, but both read the same tensor, or what the same
// kernel makes.
//
// In one kernel they read it once, in one launch: the look-ups of cosines and of sines by the same
// positions, two statistics of the same rows. Of several tensors that come from one kernel each is
// read once in any case, but in one launch: new keys and values that are put behind those kept, as
// the two caches of a decoder are copied. Merging along edges never brings them together. Only
// kernels of one kind that walk one index space are put together, as the schedule of that kind has
// to agree; matmuls of the same input have been merged before (rewrite/merge_projections.h).
#pragma once

#include "fusion/merging.h"

namespace opweld {

// How many kernels went into another. The classic rules know no siblings: none.
int merge_siblings(const Graph& graph, const PlanOptions& options, Merging& merging);

}  // namespace opweld
