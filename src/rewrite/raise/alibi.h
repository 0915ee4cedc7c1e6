// Finds ALiBi in the masks of attention: slopes[h] * (t - s), added to the scores.
#pragma once

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

// Takes the bias out of a float mask of an attention that has no slopes yet: the mask itself, a
// term of a sum, or what a selection keeps that hides by -inf. See match_alibi() for its spellings;
// with positions of keys alone (slopes[h] * t) as well as with distances. What else the mask has
// stays one; where that says no more than that later keys are hidden, it becomes `causal`.
//
// Not raised where the log-sum-exp is asked for, which other terms of the bias are a part of; and
// not slopes that differ with the batch element, a bias that curves, or one that is symmetric
// without a causal mask. A row in which infinite slopes meet may be NaN in the one form and not in
// the other.
Status raise_alibi(Graph& graph);

}  // namespace opweld
