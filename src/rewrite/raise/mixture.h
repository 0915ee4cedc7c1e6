// The sorted form of a mixture of experts: each expert computes the tokens that chose it, and the
// rows of a stage are one grouped matmul.
//
//   order = the choices of all tokens, sorted by expert     rows = x[order / k]
//   h = program(rows, grouped matmuls by stacked weights)   y = sum over j of weight * h[back to j]
#pragma once

#include "graph/graph.h"
#include "rewrite/raise/expert_choice.h"
#include "rewrite/raise/expert_program.h"
#include "support/expected.h"

namespace opweld {

// Before `root`, from whose source the nodes of the routing take theirs; those of the experts are
// named after all that they stand for. Two products of one row by matrices of equal size become one
// of twice the columns, so that what brings them together finds both at hand. Returns [tokens..,
// N].
Expected<Value*> build_mixture(Graph& graph, Node& root, const ExpertChoice& choice,
                               const Chosen& share, const ExpertProgram& program);

}  // namespace opweld
