#include "fusion/legality/legality.h"

namespace opweld {

Legality check_legality(const MergeCandidate& candidate, const PlanOptions& options) {
  using Rule = Legality (*)(const MergeCandidate&, const PlanOptions&);
  constexpr Rule kRules[] = {
      check_without,          // the schedule is not switched off
      check_limit,            // operands and nodes of one kernel
      check_format,           // memory formats agree
      check_linear,           // classic rules only: one reader
      check_cycle,            // the kernel graph stays acyclic
      check_attention_chain,  // an attention goes on only where that is asked for
  };
  for (const Rule rule : kRules) {
    if (Legality refusal = rule(candidate, options)) return refusal;
  }
  if (!options.oracle) return std::nullopt;
  const auto kernel = options.oracle(extract_group(candidate.merged), candidate.merged.kind);
  if (Legality refusal = check_domain(kernel)) return refusal;  // a schedule serves the group
  // and its kernel fits on the chip,
  if (Legality refusal = check_pressure(candidate, *kernel, options)) return refusal;
  return check_parallelism(candidate, *kernel, options);  // and leaves no core idle
}

}  // namespace opweld
