// Finds softmax and log_softmax in primitive operators: exp(x - max(x)) / sum(exp(x - max(x))).
#pragma once

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

// Along any one axis. The quotient may be a product with a reciprocal. log_softmax is
// x - max(x) - log(sum(exp(x - max(x)))), or the logarithm of a softmax that nothing else reads:
// where the softmax would have become 0, its logarithm stays finite.
//
// Not raised: exponentials from which no maximum was taken, since a line with +inf then has other
// values; maximum and sum over different axes, or over several; steps that something else reads.
Status raise_softmax(Graph& graph);

}  // namespace opweld
