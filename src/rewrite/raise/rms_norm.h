// Finds rms_norm in primitive operators: x / sqrt(mean(x^2) + epsilon) * scale.
#pragma once

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

// For the spellings see match_rms_division(). A product with a scale is taken in where the quotient
// is read by nothing else; read by several, or given out, the quotient alone is raised and the
// products stay.
//
// Half types. Where x is cast to f32 and the result back, the casts are taken in if the scale is
// multiplied before the cast back, since the operator rounds once, at the end. Where the quotient
// is rounded to a half first and multiplied by the scale then, the product stays behind the
// operator, so that each rounding is where the model has it. Where all is computed in halves, the
// operator's f32 statistics are more accurate, and do not overflow as the squares of halves do.
Status raise_rms_norm(Graph& graph);

}  // namespace opweld
