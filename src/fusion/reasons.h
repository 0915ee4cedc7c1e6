// The table of reasons why an edge is not fused: stable code, what it means, what a user can do.
#pragma once

#include <span>
#include <string_view>

#include "fusion/plan.h"

namespace opweld {

struct Reason {
  ReasonCode code;
  std::string_view name;      // "F-FORK"
  std::string_view sentence;  // what happened
  std::string_view remedy;    // what to change, if it matters
};

// In the order of ReasonCode, Fused left out. docs/reasons.md is made from this table.
std::span<const Reason> all_reasons();
const Reason& reason(ReasonCode code);  // not for Fused

}  // namespace opweld
