// The schedule of the merged kind walks one index space; the group must fit it.
#include "fusion/legality/legality.h"

namespace opweld {

Legality check_domain(const MergeCandidate& candidate, const PlanOptions& options) {
  if (!options.oracle) return std::nullopt;
  const Status served = options.oracle(extract_group(candidate.merged), candidate.merged.kind);
  if (served) return std::nullopt;
  return Refusal{ReasonCode::Domain, served.error().message};
}

}  // namespace opweld
