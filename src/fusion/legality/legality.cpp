#include "fusion/legality/legality.h"

namespace opweld {

Legality check_groups(const Group& producer, const Group& consumer) {
  using Rule = Legality (*)(const Group&, const Group&);
  constexpr Rule kRules[] = {
      check_stream,       // the user put them on one stream
      check_side_effect,  // neither reads what the other writes in place
      check_dtype,        // there are schedules for their types
      check_opaque,       // neither is a call
      check_kinds,        // a schedule holds both kinds
  };
  for (const Rule rule : kRules) {
    if (Legality refusal = rule(producer, consumer)) return refusal;
  }
  return std::nullopt;
}

Legality check_candidate(const MergeCandidate& candidate, const PlanOptions& options) {
  using Rule = Legality (*)(const MergeCandidate&, const PlanOptions&);
  constexpr Rule kRules[] = {
      check_level,            // `ops`: one operator of the library in a kernel
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
  return std::nullopt;
}

Legality check_kernel(const MergeCandidate& candidate, const PlanOptions& options) {
  if (!options.oracle) return std::nullopt;
  const auto kernel = options.oracle(candidate.merged);
  // A schedule serves the group,
  if (Legality refusal = check_conversion(candidate, kernel)) return refusal;
  if (Legality refusal = check_domain(kernel)) return refusal;
  // and its kernel fits on the chip,
  if (Legality refusal = check_pressure(candidate, kernel->pressure, options)) return refusal;
  if (Legality refusal = check_parallelism(candidate, kernel->pressure, options)) {
    return refusal;  // leaves no core idle,
  }
  return check_chain_cost(candidate, *kernel, options);  // and does not wait for its weights
}

}  // namespace opweld
