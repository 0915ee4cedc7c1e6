// Is sharing a kernel worth it?
//
// The old rule, "fuse whatever is legal", fails in one place: a producer that is inlined into a
// reader walking a larger index space (a mask computed per position and broadcast over heads and
// queries) is computed once per element of that space. The rule here: fuse when
//
//     bytes_saved / bandwidth + launches_saved * launch_seconds >= flops_added / peak_flops
//
// where bytes_saved are the boundary bytes that no longer cross (negative where a reshape, which by
// itself moves nothing, would have to be written), launches_saved is 1, or 0 where one of the two
// is such a reshape, and flops_added is the producer's work times (elements of the reader's space /
// elements of the producer - 1). Unknown sizes count as PlanOptions::nominal_size. Tunable: the
// target's three rates, and the flops charged per operator.
#pragma once

#include "fusion/legality/legality.h"

namespace opweld {

struct FusionGain {
  double bytes_saved = 0;
  double flops_added = 0;
  double seconds = 0;  // < 0: fusing is slower
};

FusionGain estimate_gain(const MergeCandidate& candidate, const PlanOptions& options);

// With every symbol at its nominal size: a number of bytes or elements (infinite if it is beyond
// int64), and the elements of a shape.
double nominal_value(const Dim& dim, std::int64_t nominal_size);
double nominal_elements(const Shape& shape, std::int64_t nominal_size);

// Scalar operations that one element of the node's result costs; transcendental ones count as many.
double flops_per_element(const Node& node);

}  // namespace opweld
