// A matmul whose columns are heads side by side, as projections of an attention are: one of them,
// or q, k and v of merged weights, each of them some of the columns, split into heads and
// transposed by views.
//
// What only moves heads takes the columns as they come. What turns pairs of a head's elements, a
// rotary embedding, needs both at once. So the weights are packed with the elements of each pair as
// parts (see ColumnStretch), whichever they are: the two halves of a head, neighbours, or those of
// the first elements alone. One register tile then holds both, and each is stored where the views
// put it. No pair is apart wherever a tile ends, so heads of any size are served.
#pragma once

#include <span>
#include <vector>

#include "tile/schedules/contraction.h"

namespace opweld::tile {

// Finds the results of `nodes` behind views of columns of the matmul's result, and notes in the
// contraction what it finds: head, stretches, segments, parts, and outputs over the result as a
// whole. Fails, and notes nothing, where a result is not of that form.
Status find_head_segments(std::span<const Node* const> nodes, std::span<const Value* const> results,
                          Contraction& contraction);

// The stretches that a head is read in on the way from `heads`, of which `axis` has the elements of
// a head, to the result: slices of that axis that make pairs, and what is left in between. Empty
// where it is read whole; fails where what is left cannot be shared out among the parts.
Expected<std::vector<ColumnStretch>> find_stretches(std::span<const Node* const> nodes,
                                                    const Value* heads, std::size_t axis,
                                                    const Value* result);

// Whether the slice takes neighbouring columns of all rows.
bool takes_columns(const Node& slice);
// The last axis of the reshape that splits columns into heads; 0 where there is none.
std::int64_t head_of(std::span<const Node* const> views);
// Which axis of what lies behind the views has the elements of a head; absent where a later reshape
// takes them apart.
std::optional<std::size_t> head_axis_of(std::span<const Node* const> views);

// The index behind the segment's views of the element that stands in column `column` of the
// segment, in row `index` (its last entry is ignored) of the matmul's result.
Index index_behind(IndexMath& math, const HeadSegment& segment, Index index, Expr column);
// Back from there: the index in the matmul's result, as what reads the views asks for it.
Index index_before(ElementBuilder& elements, const HeadSegment& segment, Index index);

}  // namespace opweld::tile
