// Computing a cheap operator again in each kernel that reads it.
//
// A value with readers in several kernels is written by one of them and read by the others. What
// makes it may be so little work that each reader had better do it for itself: a cast to a wider
// type, a mask or a bias made of small operands, a scaled copy. The inequality, over the kernels
// that make and read the value, as they are and as they would be:
//
//     moving seconds (again) <= 0.98 * moving seconds (once)   and   seconds (again) <= seconds
//     (once)
//
// by the kernel model (fusion/cost.h), and no more bytes may cross the kernels' edges than before.
// In the model the arithmetic of the kernels' programs counts, with what is computed again for
// every element that reads it. So a plan is never worse for it. It is decided once for each value
// and for all its readers: either nobody writes it, or one kernel does. Tunable: the margin, how
// many operators and readers are looked at.
#pragma once

#include "fusion/groups.h"
#include "fusion/planner.h"

namespace opweld {

// Takes kernels in execution order, with their boundaries, and leaves them so; a kernel that made
// nothing else is gone. Says what is recomputed now.
//
// Only what gives the same bits wherever it is computed is done again: pointwise operators and
// index maps. Where one reader feeds another, as the maximum of a row feeds what is shifted by it,
// these must be of the kind that IEEE 754 rounds, or move elements.
std::vector<Recomputation> recompute_forks(std::vector<Kernel>& kernels, const Groups& groups,
                                           const PlanOptions& options);

}  // namespace opweld
