// Rows group after group: the operator, for those who build it, and what it says of a wrong group.
#pragma once

#include <string_view>

#include "ops/builder.h"

namespace opweld {

inline constexpr std::string_view kNoSuchGroup = "a row is of a group that there is not";

struct GroupedRows {
  Value* order;   // [R], the row at each place
  Value* place;   // [R], the place of each row
  Value* counts;  // [E], how many rows each group has
};

// groups [R] of integers in [0, count). An error is the builder's.
Expected<GroupedRows> sort_by_group(Builder& build, Value* groups, const Dim& count);

}  // namespace opweld
