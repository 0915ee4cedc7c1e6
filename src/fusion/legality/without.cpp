// Somebody wants to see what the model is like without the schedule.
#include <algorithm>

#include "fusion/legality/legality.h"

namespace opweld {

Legality check_without(const MergeCandidate& candidate, const PlanOptions& options) {
  const KernelKind kind = candidate.merged.kind;
  if (std::ranges::find(options.without, kind) == options.without.end()) return std::nullopt;
  return Refusal{ReasonCode::Without, fmt::format("it would be a kernel of {}", to_string(kind))};
}

}  // namespace opweld
