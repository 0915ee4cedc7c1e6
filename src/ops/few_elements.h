// Operators over a few elements, written out: what a kernel around them can then hold.
//
// A top_k of a few along the last axis is so many reductions, each over what the ones before left:
//
//   rest_r  = x where no choice before is, else the least number that there is
//   value_r = max(rest_r)         index_r = argmax(rest_r), the first of equal ones
//
// and where value_r is that least number itself, index_r is the first that is not chosen yet. So
// it is exact for ties, NaN (the greatest) and infinities, and a schedule that takes reductions
// takes it, with the softmax before and the weights behind.
//
// A sum, maximum or minimum of a few elements is a few operators. Along any axis but the last it is
// so wherever it stands: an element of the result is made of a few of the operand's, each read
// once. Along the last axis it is so behind such a choice only, whose few columns are at hand
// together; it adds them up as the reduction by itself would, lane by lane.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

// Up to so many elements are few.
inline constexpr std::int64_t kFewElements = 8;

// Whether it is a top_k of the greatest few along the last axis.
bool chooses_few(const Node& node);

// Of the sum, maximum or minimum of a few elements along one axis, not the last, how many they are;
// nothing of another node.
std::optional<std::int64_t> combines_few(const Node& node);

// In a group of primitives: writes out all such operators.
Status expand_few_elements(Graph& group);

}  // namespace opweld
