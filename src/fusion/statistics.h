// Statistics of a matmul's rows, out of its epilogue.
//
// A matmul and a reduction of its rows are a chain, in which a task owns rows; and a chain pays
// where there are many. Where there are few, tasks share columns out, and what remains of the
// reduction is its own kernel. If all that the kernel does is to reduce rows, and to make something
// of the results alone, the matmul's tasks can give it (tile/schedules/row_statistics.h), whatever
// the number of rows.
//
// Merging along edges would do that too soon: a norm whose statistics went into the matmul before
// it would be left with its last pass, which no longer goes with the matmul behind it. So it is
// tried when all other kernels are there, each that goes is one kernel less, and no bytes are more.
// Combining the lanes of each vector takes more instructions than a pass over rows does, which
// counts where many rows meet a product of little depth; so the kernel model is asked.
//
// A norm is not taken apart for it. Its last pass reads whole rows in any case, as a kernel of its
// own or in the one of the matmul behind it; that there is one pass less saves a few instructions,
// no kernel, and the statistics would be written and read besides.
#pragma once

#include "fusion/merging.h"

namespace opweld {

// How many kernels went into the matmul before them. Needs an oracle.
int merge_statistics(const Graph& graph, const PlanOptions& options, Merging& merging);

}  // namespace opweld
