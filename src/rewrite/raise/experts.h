// A mixture of experts becomes grouped matmuls: each expert computes the tokens that chose it.
//
// Exporters have no operator for that. They write every expert as a branch that computes all
// tokens, and weigh its result by what the router gave it, or compute all at once by batched
// matmuls:
//
//   y = sum over e of expert_e(x) * share[.., e]              share: see expert_choice.h
//   y = sum over e and j of (indices[.., j] == e ? expert_e(x) * weight[.., j] : 0)
//   y = reduce_sum(experts(x) [experts, tokens.., N] * share [experts, tokens.., 1])
//   y = share [tokens.., 1, experts] x experts(x) [tokens.., experts, N], or with both transposed
//   y = sum over j of weight[.., j] * (x through the matrices gathered by indices[.., j]), the sum
//   by
//       reduce_sum or as a product; matrices of a token's choices one by one, or all in one product
//
// The second is also what becomes of gathers and scatters by NonZero (import/onnx/chosen_rows.h).
// In the first, rows of tokens that did not choose an expert may be put to zero besides. In the
// third and fourth the axis of experts may be behind the tokens as well, and the experts may be
// branches that are put beside each other. What is asked:
//   - the experts were chosen by a top_k of the largest along the last axis, of which all that is
//     added up are choices, by one weight;
//   - each expert is in the sum exactly once, in any order; what else is added stays as it is, an
//     expert that all tokens go through for one;
//   - they are equal but for their constants, row by row (expert_program.h), read the same tokens,
//     and nothing else reads what they compute.
// Where a sum has experts of a choice, but something of that does not hold, `notes` receives a
// sentence that says what, and the model stays as it is.
//
// Values differ from those of the spelling in the order in which a token's experts are added up,
// and where an expert that a token did not choose overflows: zero times infinity or NaN is NaN in
// the first, third and fourth spelling, and is not computed here.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

Status raise_experts(Graph& graph, std::vector<std::string>* notes);
inline Status raise_experts(Graph& graph) {
  return raise_experts(graph, nullptr);
}

}  // namespace opweld
