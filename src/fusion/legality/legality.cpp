#include "fusion/legality/legality.h"

namespace opweld {

Legality check_legality(const MergeCandidate& candidate, const PlanOptions& options) {
  using Rule = Legality (*)(const MergeCandidate&, const PlanOptions&);
  constexpr Rule kRules[] = {
      check_limit,   // operands and nodes of one kernel
      check_format,  // memory formats agree
      check_linear,  // classic rules only: one reader
      check_cycle,   // the kernel graph stays acyclic
      check_domain,  // a schedule serves the group
  };
  for (const Rule rule : kRules) {
    if (Legality refusal = rule(candidate, options)) return refusal;
  }
  return std::nullopt;
}

}  // namespace opweld
