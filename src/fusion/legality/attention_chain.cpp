// Whether an attention goes on into its projection in one kernel.
//
// Alone, an attention shares out blocks of rows of each head; in a chain a task has all heads of
// its rows, so that there are fewer tasks, of unequal length where a mask is causal. What a chain
// saves is the way of the attention's result to memory and back, and a kernel. From where that
// outweighs the other has not been measured; until it is, such chains are made where they are asked
// for.
#include <algorithm>

#include "fusion/legality/legality.h"
#include "ops/op.h"

namespace opweld {

namespace {

bool has_attention(const Kernel& kernel) {
  return std::any_of(kernel.nodes.begin(), kernel.nodes.end(), [](const Node* node) {
    return op_def(*node).trait == FusionTrait::Attention;
  });
}

}  // namespace

Legality check_attention_chain(const MergeCandidate& candidate, const PlanOptions& options) {
  if (options.attention_chains || candidate.merged.kind != KernelKind::Chain) return std::nullopt;
  if (!has_attention(candidate.merged)) return std::nullopt;
  return Refusal{
      ReasonCode::Cost,
      "an attention goes on into its projection where that is asked for (--attention-chains)"};
}

}  // namespace opweld
