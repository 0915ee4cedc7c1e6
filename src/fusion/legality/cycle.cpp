// Merging two groups between which another stands would make the kernel graph cyclic.
#include "fusion/legality/legality.h"

namespace opweld {

Legality check_cycle(const MergeCandidate& candidate, const PlanOptions&) {
  if (!candidate.groups.merge_makes_cycle(candidate.producer, candidate.consumer)) {
    return std::nullopt;
  }
  return Refusal{ReasonCode::Cycle, "another kernel stands between the two"};
}

}  // namespace opweld
