// Numbers that grow evenly along axes, as positions do: counted by iota or range, shifted by sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace opweld {

// Element [.., i1, i0] is offset + sum of steps[a] * i_a, with axes counted from the last. What has
// no elements is any ramp.
struct Ramp {
  std::vector<std::int64_t> steps;
  Dim offset = 0;
};

// The ramp that an integer value is, for all sizes: iota, range, sizes, and their sums, differences
// and negations, cast, reshaped, expanded, tiled, sliced, joined where one goes on from the other,
// looked up at places that are ramps themselves; running sums of zeros; truths that are the same
// everywhere.
std::optional<Ramp> integer_ramp(const Value* value);

// Whether the elements of a bool value are all true, or all false, for all sizes: comparisons of
// such ramps, and what logic makes of them. Absent where that is not known, or differs.
std::optional<bool> known_truth(const Value* value);

// Whether two numbers are equal at all sizes at which a tensor of that shape has elements.
bool equal_inside(const Dim& a, const Dim& b, const Shape& shape);

// The same of the result of a binary operator: first + sign * second, broadcast.
std::optional<Ramp> combined_ramp(const Node& node, std::int64_t sign);

// The same of floats as well, taken as the numbers that they would be without rounding: f16 and
// bf16 do not count far.
std::optional<Ramp> real_ramp(const Value* value);

// The operand's ramp, expanded: the one element of an axis is repeated, not counted on.
Ramp expanded_ramp(Ramp ramp, const Node& expansion);

// The size of an axis, counted from the last.
const Dim& size_from_last(const Value* value, std::size_t axis);

// Whether a reshape or an expansion leaves the last `count` axes as they are, and the elements
// along them: it adds or takes away axes of one element before them, or repeats.
bool keeps_last_axes(const Node& view, std::size_t count);

}  // namespace opweld
