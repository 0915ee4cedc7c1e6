// Finds layer_norm in primitive operators: (x - mean(x)) / sqrt(variance(x) + epsilon) * scale +
// bias.
#pragma once

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

// It is x - mean(x) divided by its root mean square, for whose spellings see match_rms_division();
// the mean must run over the same axes, and the difference may be written once or twice. Scale and
// bias are optional, and taken in where the step before is read by nothing else. Of half types the
// same holds as for rms_norm.
//
// Not raised: a variance as mean(x^2) - mean(x)^2, which is another function where it cancels; a
// difference or a mean that is read elsewhere too. A norm over groups of channels, reshaped to
// [N, G, K], is raised to a layer_norm of that shape, which fuses with its neighbours, rather than
// to group_norm.
Status raise_layer_norm(Graph& graph);

}  // namespace opweld
