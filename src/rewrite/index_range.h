// What is known of integers that say where something is: none is negative, and all are less than
// the size of what they choose from.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace opweld {

// A number that all elements of an integer value are less than, none of them being negative: of
// what top_k, argmax, argmin and sort_by_group give as places, behind views and casts that change
// no number. Absent where no such number is known.
std::optional<Dim> index_limit(const Value* value);

}  // namespace opweld
