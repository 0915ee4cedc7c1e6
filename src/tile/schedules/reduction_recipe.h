// What the operators that reduce are made of: a combiner, what is done to each element before it,
// and to the total behind it.
#pragma once

#include <vector>

#include "tile/schedules/group_lowering.h"

namespace opweld::tile {

// Whether the operator is a reduction that a pass over its axes can accumulate.
bool is_staged_reduction(const Node& node);

// The rest is of nodes that are.
bool is_arg_reduction(const Node& node);
Combiner combiner_of(const Node& node);
// By axis of the operand.
std::vector<bool> reduced_axes(const Node& node);
// Whether the result has the reduced axes, with one element each.
bool keeps_dims(const Node& node);

// What is combined of an element.
Expr before_combining(ExprPool& exprs, const Node& node, Expr element);
// The element of the result that `total` of `count` elements comes to, in a local of its own.
Expr after_combining(GroupLowering& lowering, const Node& node, Expr total, const Dim& count);

}  // namespace opweld::tile
