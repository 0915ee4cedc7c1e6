// Whether an attention goes on into its projection in one kernel.
//
// Alone, an attention shares out blocks of rows of each head; in a chain a task has all heads of
// its rows, so that there are fewer tasks, of unequal length where a mask is causal. What a chain
// saves is the way of the attention's result to memory and back, and a kernel. On two cores that
// never paid: of two kernels' time, a chain of an attention, its projection and a norm took 1.26 to
// 1.36 times at 512 queries, 1.03 to 1.13 at 2048, and as long for eight short sequences (`opweld
// bench` with and without --attention-chains). So such chains are made where they are asked for:
// they are for machines on which a launch or a byte costs more.
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
