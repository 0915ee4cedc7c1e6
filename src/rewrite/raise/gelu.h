// Finds gelu in primitive operators: x (1 + erf(x / sqrt 2)) / 2, or the form with tanh.
#pragma once

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

// Both forms are compared as polynomials, around the erf or tanh and inside of it, so that factors
// and terms may stand in any order and be distributed in any way: x * 0.5 * (1 + erf(x / sqrt 2)),
// (x / 2) * (...), 0.5 x + 0.5 x erf(...), k (x + c x^3), k x (1 + c x^2), pow(x, 3) ...
//
// Constants must be those of the definition as numbers of the dtype (is_about()): exporters round
// sqrt(2), 1 / sqrt(2) or sqrt(2 / pi) to it. A form with other constants (0.044 for 0.044715) is
// another function and stays, as do forms of which a step is read elsewhere.
//
// At -inf the written formula is -inf * 0 = NaN, and the operator the limit 0.
Status raise_gelu(Graph& graph);

}  // namespace opweld
