// The classic rule: the producer's output is read by the consumer alone.
#include <set>

#include "fusion/legality/legality.h"

namespace opweld {

Legality check_linear(const MergeCandidate& candidate, const PlanOptions& options) {
  if (options.rules != RuleSet::Linear) return std::nullopt;
  if (candidate.value->is_graph_output()) {
    return Refusal{ReasonCode::GraphOutput, "the value is an output of the model"};
  }
  std::set<const Node*> readers;  // one may read the value twice
  for (const Use& use : candidate.value->uses()) readers.insert(use.node);
  if (readers.size() <= 1) return std::nullopt;
  return Refusal{ReasonCode::Fork, fmt::format("{} readers", readers.size())};
}

}  // namespace opweld
