// Schedule `sort`: the order of rows by group (ops/sort_by_group.cpp), a counting sort.
//
//   for e in groups:  size[e] <- 0
//   for r in rows:    size[group r] <- size[group r] + 1
//   for e in groups:  next[e + 1] <- next[e] + size[e];  counts[e] <- size[e]
//   for r in rows:    p <- next[group r];  order[p] <- r;  place[r] <- p;  next[group r] <- p + 1
//
// One task: where a row goes depends on all rows before it, and rows are few beside what is then
// computed of each. A row of no group fails the run, and is written nowhere.
#include "tile/schedules/row_sort.h"
#include "tile/schedules/schedules.h"

namespace opweld::tile {

const Node* find_sort(const Graph& group) {
  return find_row_sort(group).node;
}

Expected<LoweredKernel> lower_sort(const Graph& group, const LowerOptions& options,
                                   std::string name) {
  const RowSort sort = find_row_sort(group);
  if (sort.node == nullptr) return fail("it sorts nothing");
  if (!sort.others.empty()) return fail("an output is not what sorting makes");
  GroupLowering lowering(group, options, std::move(name));
  lowering.bind_params();
  OPWELD_CHECK(emit_row_sort(lowering, sort, [&](int result, Expr index, Expr value) {
    return store_sorted(lowering, sort, result, index, value);
  }));
  return lowering.finish();
}

}  // namespace opweld::tile
