// Rows that a model sorts by group become those of sort_by_group.
//
// Where PyTorch has grouped products, models sort the choices of experts themselves, by operators
// that say nothing of groups. For rows of which groups [R] says the group, in [0, E):
//
//   sorted, order = top_k of all groups, the least first
//   counts = sum over r of [groups[r] == e]              in any spelling: see numbered_rows.h
//   grouped_matmul(x[order / k], w, cumsum(counts))      ends of groups for the numbers of rows
//   place = scatter of 0, 1 .. R - 1 to order, or a top_k of order, the least first
//   y = (rows * share[order])[place]
//
// becomes
//
//   order, place, counts = sort_by_group(groups)
//   grouped_matmul(x[order / k], w, counts)
//   y = rows[place] * share
//
// which is what experts in other spellings become (mixture.h), so that they share its kernels. What
// is asked:
//   - a grouped matmul by ends of groups reads rows that are looked up in that order;
//   - groups are certain to be in [0, E), as the indices of a top_k of at most E numbers are:
//     sort_by_group knows no others, where a histogram leaves out what is beyond its bins;
//   - the ends are the running sum of the counts of all rows.
// Where the first holds and another does not, `notes` receives a sentence that says which, and the
// model stays as it is.
//
// No value differs from those of the spelling, but where it counts in a float, whose numbers of
// rows are rounded beyond what that float counts to; and its order of equal groups, if it leaves
// that open, is the order of the rows.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

Status raise_sorted_rows(Graph& graph, std::vector<std::string>* notes);

}  // namespace opweld
