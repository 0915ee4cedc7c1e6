// The schedule of the merged kind walks one index space; the group must fit it.
#include "fusion/legality/legality.h"

namespace opweld {

Legality check_domain(const Expected<KernelEstimate>& kernel) {
  if (kernel) return std::nullopt;
  return Refusal{ReasonCode::Domain, kernel.error().message};
}

}  // namespace opweld
