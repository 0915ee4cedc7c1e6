// A matmul whose columns are heads side by side, as projections of an attention are: one of them,
// or q, k and v of merged weights, each of them some of the columns, split into heads and
// transposed by views.
//
// What turns pairs of a head's elements, a rotary embedding, needs both at once. So the weights are
// packed with the two halves of each head as parts (see Param::packed_head): one register tile
// holds the same columns of both, and each is stored where the views put it.
#pragma once

#include <span>
#include <vector>

#include "tile/schedules/contraction.h"

namespace opweld::tile {

// Finds the results of `nodes` behind views of columns of the matmul's result, and notes in the
// contraction what it finds: head, segments, parts, and outputs over the result as a whole. False,
// and nothing noted, where a result is not of that form.
bool find_head_segments(std::span<const Node* const> nodes, std::span<const Value* const> results,
                        Contraction& contraction);

// The index behind the segment's views of the element that stands in column `column` of the
// segment, in row `index` (its last entry is ignored) of the matmul's result.
Index index_behind(IndexMath& math, const HeadSegment& segment, Index index, Expr column);
// Back from there: the index in the matmul's result, as what reads the views asks for it.
Index index_before(ElementBuilder& elements, const HeadSegment& segment, Index index);

}  // namespace opweld::tile
