// What a model computes of whole numbers, each in a row of its own, told by computing it.
//
// Bins of a histogram, comparisons with what is counted, selections: however a model spells which
// column belongs to a number, what it means is a table of small size, and two spellings of one
// meaning have the same table.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/graph.h"
#include "graph/tensor.h"

namespace opweld {

// The rows [count, ..] that `value` [rows, ..] has where `numbers` [rows] are 0, 1 .. count - 1.
// Absent where it is not computed row by row, in pointwise operators and views that leave rows
// apart, or where it reads anything else than these numbers and what is known without a run.
std::optional<Tensor> rows_by_number(const Value* value, const Value* numbers, std::int64_t count);

}  // namespace opweld
