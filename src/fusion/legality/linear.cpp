// The classic rule: the producer's output is read by the consumer alone.
#include "fusion/legality/legality.h"

namespace opweld {

Legality check_linear(const MergeCandidate& candidate, const PlanOptions& options) {
  if (options.rules != RuleSet::Linear) return std::nullopt;
  if (candidate.value->is_graph_output()) {
    return Refusal{ReasonCode::GraphOutput, "the value is an output of the model"};
  }
  const std::size_t readers = candidate.value->uses().size();
  if (readers > 1) return Refusal{ReasonCode::Fork, fmt::format("{} readers", readers)};
  return std::nullopt;
}

}  // namespace opweld
