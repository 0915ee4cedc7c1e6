// The rows of a matrix shared out among groups: group g has the rows [start(g), start(g + 1)),
// start(0) = 0, and every row is in a group.
//
// The bounds are data, one for each group: how many rows it has, or, if they are cumulative, the
// row that it ends before. What is wrong with them is said in the same words by the reference and
// by generated code, each followed by the numbers.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/tensor.h"
#include "support/expected.h"

namespace opweld {

inline constexpr std::string_view kNegativeGroup = "a group has a negative number of rows";
inline constexpr std::string_view kDecreasingEnds = "a group ends before it starts";
inline constexpr std::string_view kGroupsTooLarge = "the groups have more rows than 'x'";
inline constexpr std::string_view kGroupsTooSmall = "the groups have fewer rows than 'x'";

// start(0), start(1), ..., start(number of groups), which is `rows`; an error where the bounds do
// not share out exactly the `rows` rows.
Expected<std::vector<std::int64_t>> group_starts(const Tensor& bounds, bool cumulative,
                                                 std::int64_t rows);

}  // namespace opweld
