// Fusions that somebody counts on: patterns that a plan is held to, as for a user's own tests.
//
// A pattern is what logs print of a kernel: operators joined by " + ".
//
//     MatMul + Add + Gelu               one kernel has these operators, in this order; there may be
//                                       others before, between and behind them
//     /h.0/mlp/fc/MatMul + /h.0/act     the same of nodes, by their names in the model, or by
//                                       whatever a single name begins with; their order is no
//                                       matter
//     MatMul + Add + Gelu [layers.3]    the kernel is one of that layer
//     6 x MatMul + Add + Gelu           so many kernels have them, or more
//     Attention                         the operator is there: it was found in the model's spelling
//
// A node's name goes before an operator's; upper and lower case of operators are the same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/why.h"

namespace opweld {

struct FusionPattern {
  std::string text;  // as it was given
  std::int64_t at_least = 1;
  std::vector<std::string> items;
  std::string scope;  // empty: any
};

// A usage error that shows how a pattern is written.
Expected<FusionPattern> parse_pattern(std::string_view text);

// An error where the plan does not have it: one line that names the edge at which it breaks and the
// code that kept that apart, or what of it is not in the model at all.
Status require_fusion(const PlannedModel& model, const FusionPattern& pattern);

}  // namespace opweld
