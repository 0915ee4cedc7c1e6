// Plans that are better than the greedy one.
//
// Merging first come, first served goes wrong where a merge that saves little stands in the way of
// one that saves more: an operator that joined its producer cannot go with its reader, since no
// schedule holds all three, or the kernel would be too large, or another kernel stands between. So
// for each edge on which greedy was refused, the two kernels at its ends are taken apart and merged
// again with some of their inner edges kept apart: every choice of those where they are few, else a
// beam over how many are (the best few sets of one edge, then of two). What the kernel
// model (cost.h) takes to be fastest stays: greedy's own, unless another moves less by a margin and
// takes no longer. (What only computes less, by a model that knows arithmetic less well than bytes,
// is no reason.) So a plan is never worse than greedy's by that measure.
//
// Only pairs are taken apart of which some cut might move less (region_bound.h). Where these are
// more than may be asked about (PlanOptions::search_questions), those come first from which most is
// to be had for a question, and the account says how many were passed over. What may be asked grows
// with the graph, so that a plan takes time in proportion to its nodes.
//
// What was found of two kernels holds for all that are joined alike (structure.h), so that a layer
// that is repeated is searched once.
#pragma once

#include "fusion/merging.h"

namespace opweld {

struct SearchOutcome {
  int regions = 0;      // pairs of kernels that were taken apart
  int improved = 0;     // of those, how many stayed otherwise
  int passed_over = 0;  // pairs that were not, since too much had been asked by then
};

// Regroups; what kept edges apart stands among the refusals. Needs an oracle; `asked` is how often
// that has been asked, and grows as it is.
SearchOutcome search_regions(const Graph& graph, const PlanOptions& options, Merging& merging,
                             const std::int64_t& asked);

}  // namespace opweld
