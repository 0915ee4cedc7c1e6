// Constants in the layout that a kernel reads them in.
#pragma once

#include <span>

#include "graph/tensor.h"
#include "runtime/executable.h"
#include "runtime/packed_form.h"
#include "support/expected.h"

namespace opweld {

// [.., K, N] (or [.., N, K] with from_transposed) becomes panels [.., ceil(N / c), K, c] of
// c = form.columns columns, padded with zero bytes. With p = form.parts the columns are those of p
// matrices side by side, and the panels [.., ceil(N / p / (c / p)), K, p, c / p], of which the last
// two axes are counted as one; with form.stretches, which N is a multiple of, the parts are those
// of each stretch. In pairs, K is padded to a multiple of form.paired_depth and the panels are
// [.., ceil(N / c), K / 2, c, 2], the last two axes again counted as one.
Sizes packed_sizes(const Sizes& matrix, const PackedForm& form);

// `packed` has the packed sizes, the dtype of the matrix, and holds zeros.
void pack_panels(const Tensor& matrix, const PackedForm& form, Tensor& packed);

// The constants that kernels want packed take their packed form, a shared one where kernels of any
// version want the same. All lie in one block of memory, so that small matrices share huge pages
// too. Each unpacked form is let go as its packed one comes.
Status pack_constants(std::span<PlanVersion> versions);

}  // namespace opweld
