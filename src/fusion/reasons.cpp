#include "fusion/reasons.h"

#include <algorithm>
#include <cassert>

namespace opweld {

namespace {

constexpr Reason kReasons[] = {
    {ReasonCode::Fork, "F-FORK",
     "The value has several readers, and the classic rules fuse only one.",
     "Use the full rules, which write the value once and keep it in registers as well."},
    {ReasonCode::Stream, "F-STREAM", "The two operators were put on different streams.",
     "Put them on one stream if their order allows it."},
    {ReasonCode::Format, "F-FORMAT",
     "The two operators take the tensor in different memory formats, and no kernel converts here.",
     "Give both the same format (all NCHW or all NHWC); the detail says what cannot be read."},
    {ReasonCode::Pressure, "F-PRESSURE",
     "Together they need more on-chip memory than the target has.",
     "Nothing to do; a target with larger caches may fuse them."},
    {ReasonCode::Cycle, "F-CYCLE",
     "Another kernel reads the one and feeds the other, so neither could go first.",
     "Nothing to do, unless the operator between them can move."},
    {ReasonCode::Domain, "F-DOMAIN", "No schedule walks both operators in one index space.",
     "Nothing to do; the detail says which spaces differ."},
    {ReasonCode::Opaque, "F-OPAQUE",
     "One of the operators is run by a call and has no inside to join.",
     "For a custom operator, declare an expression or a body (docs/custom-operators.md)."},
    {ReasonCode::SideEffect, "F-SIDE-EFFECT",
     "The one operator writes into a cache in place, which must be done before the other reads it.",
     "Nothing to do; what makes the new rows can be welded to their writing all the same."},
    {ReasonCode::GraphOutput, "F-GRAPH-OUTPUT",
     "The value is an output of the model and must be written.",
     "Do not give the value out, or use the full rules, which write it and fuse."},
    {ReasonCode::UnservedType, "F-DTYPE",
     "One of the operators has no schedule for its type, in which it is run by a call.",
     "Cast around it: matmuls have schedules for floats, attention for those of up to 32 bits."},
    {ReasonCode::Limit, "F-LIMIT", "The kernel would have more operators or tensors than the cap.",
     "Nothing to do; the chain is cut into kernels of the largest size."},
    {ReasonCode::Cost, "F-COST",
     "Fusing is possible, but is not known to pay at these sizes; the detail says why.",
     "Nothing to do, unless the detail names an option or sizes at which it is done."},
    {ReasonCode::Level, "F-LEVEL", "This level of fusion keeps the two apart.",
     "Compile with --fusion=auto."},
    {ReasonCode::Without, "F-WITHOUT",
     "Welding into kernels of this schedule was switched off for this compilation.",
     "Leave out --without, which is for seeing what a schedule gains."},
    {ReasonCode::Recompute, "F-RECOMPUTE",
     "The operator is computed in each kernel that reads it, and some of them read its operand.",
     "Nothing to do; less is read and written than if it were computed once."},
};

}  // namespace

std::span<const Reason> all_reasons() {
  return kReasons;
}

const Reason& reason(ReasonCode code) {
  const auto* found = std::find_if(std::begin(kReasons), std::end(kReasons),
                                   [code](const Reason& each) { return each.code == code; });
  assert(found != std::end(kReasons));
  return *found;
}

}  // namespace opweld
