// Merges of which it is foreseen that a schedule serves them.
//
// Nearly all that greedy merging asks schedules about is as plain as can be: one more pointwise
// operator in rows of one shape, behind a norm, a matmul or a chain. Of all that is plain in this
// sense, schedules serve nearly every group, and its kernel fits on the chip; to have a program
// made of each on the way to a kernel of sixty operators takes as long as the square of that. So
// they are not asked about plain merges, but about the kernels that come out in the end, whose
// costs are asked for anyway. Should one of these not be as foreseen, all is merged anew, and
// schedules are asked at every step: a wrong guess costs time and nothing else.
#pragma once

#include "fusion/legality/legality.h"

namespace opweld {

// Whether it is, as far as the groups tell: rows of one shape, as many numbers of them as have room
// on the chip, in pointwise operators, norms, softmax and reductions of whole rows; or a pointwise
// operator of a matmul's rows that joins the matmul, or the chain that it is in.
bool is_foreseen(const MergeCandidate& candidate, const PlanOptions& options);

// Whether a group that was merged without asking is what it was taken to be.
bool is_as_foreseen(const Group& group, const PlanOptions& options);

}  // namespace opweld
