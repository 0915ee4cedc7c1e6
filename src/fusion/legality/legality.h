// May producer and consumer share a kernel? One rule per file; each allows or forbids with a
// reason.
#pragma once

#include <optional>
#include <string>

#include "fusion/groups.h"
#include "fusion/planner.h"

namespace opweld {

struct Refusal {
  ReasonCode code;
  std::string detail;
  bool allowed_when_larger = false;  // by a plan for larger sizes (PlanOptions::rows_granted)
};

// Absent: allowed.
using Legality = std::optional<Refusal>;

// The pair under question, and what they would be together.
struct MergeCandidate {
  const Groups& groups;
  const Group& producer;
  const Group& consumer;
  const Value* value;    // the edge that brought them together
  const Kernel& merged;  // of kind merged_kind, with its boundary
};

Legality check_stream(const Group& producer, const Group& consumer);
Legality check_side_effect(const Group& producer, const Group& consumer);
Legality check_dtype(const Group& producer, const Group& consumer);
Legality check_opaque(const Group& producer, const Group& consumer);
Legality check_kinds(const Group& producer, const Group& consumer);
Legality check_level(const MergeCandidate& candidate, const PlanOptions& options);
Legality check_without(const MergeCandidate& candidate, const PlanOptions& options);
Legality check_linear(const MergeCandidate& candidate, const PlanOptions& options);
Legality check_format(const MergeCandidate& candidate, const PlanOptions& options);
Legality check_cycle(const MergeCandidate& candidate, const PlanOptions& options);
Legality check_limit(const MergeCandidate& candidate, const PlanOptions& options);
Legality check_attention_chain(const MergeCandidate& candidate, const PlanOptions& options);
// These are about the kernel that a schedule would make, which the oracle told.
Legality check_conversion(const MergeCandidate& candidate, const Expected<KernelEstimate>& kernel);
Legality check_domain(const Expected<KernelEstimate>& kernel);
Legality check_pressure(const MergeCandidate& candidate, const Pressure& kernel,
                        const PlanOptions& options);
// Whether it stays under the limits, whatever it was made of.
bool fits_on_chip(const Pressure& kernel, const PlanOptions& options);

// Not a matter of may, but of should: these need the kernel, too.
Legality check_parallelism(const MergeCandidate& candidate, const Pressure& kernel,
                           const PlanOptions& options);
// Whether a chain keeps cores busy whatever it was made of.
bool keeps_cores_busy(const Pressure& chain, const PlanOptions& options);
Legality check_chain_cost(const MergeCandidate& candidate, const KernelEstimate& kernel,
                          const PlanOptions& options);
// Whether a chain's rows pay at the sizes that the plan is for.
bool has_rows_that_pay(const Kernel& chain, const KernelEstimate& estimate,
                       const PlanOptions& options);
// What a chain that it allowed asks of sizes that are unknown; absent: nothing.
std::optional<SizeCondition> rows_asked_for(const Kernel& kernel, const KernelEstimate& estimate,
                                            const PlanOptions& options);

// The rules that need no more than the two groups, which are asked before there is a candidate.
Legality check_groups(const Group& producer, const Group& consumer);
// All other rules over a complete candidate, cheapest first; the first refusal: those that go by
// the groups, and those that go by the kernel that a schedule makes of them.
Legality check_candidate(const MergeCandidate& candidate, const PlanOptions& options);
Legality check_kernel(const MergeCandidate& candidate, const PlanOptions& options);

}  // namespace opweld
