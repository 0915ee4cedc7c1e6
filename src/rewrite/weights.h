// Weights on their way from the model to how kernels read them.
//
// What becomes of them here lives until they are packed (runtime/pack.h), each until its own packed
// form is there. So it takes passing memory (support/memory_block.h): no more of it than there are
// weights, and given back one by one.
#pragma once

#include <span>

#include "graph/attributes.h"
#include "graph/tensor.h"
#include "support/expected.h"

namespace opweld {

// Whether the permutation swaps the last two of its axes and leaves the others.
bool swaps_matrix_axes(const Ints& permutation);

// [.., columns, rows] of [.., rows, columns].
Expected<Tensor> transposed_matrices(const Tensor& matrices);

// Tensors [rows, columns] of one dtype, at least one, side by side.
Expected<Tensor> side_by_side(std::span<const Tensor> parts);

}  // namespace opweld
