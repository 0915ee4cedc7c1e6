// Finds rope (rotary position embedding) in primitive operators.
#pragma once

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

// Recognised of x with an axis of positions and one of heads, in either order, before the last:
//   whole     x * cos + rotated(x) * sin, where rotated is concat(-x2, x1) of the halves of a head,
//             or the same of its interleaved elements; cos and sin must hold each angle twice,
//             provably (RotaryAngles), since the operator has one angle for a pair
//   parted    concat(x1 * cos - x2 * sin, x2 * cos + x1 * sin), or the same woven together, of the
//             halves or of the interleaved elements
//   partial   either of the first elements of a head, concatenated with the rest unchanged
// with operands of sums and products in either order, cos and sin given or gathered by positions,
// the same for all sequences or not. Casts of x to f32 and back around it are taken in.
//
// Not raised: other signs (a turn the other way is one, by negated sines, only if spelled so),
// halves exchanged, cos and sin that vary from head to head, steps that something else reads. In
// half types the operator rounds once where the spelling rounds three times.
Status raise_rope(Graph& graph);

}  // namespace opweld
