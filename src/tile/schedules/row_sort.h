// The counting sort of sort_by_group: by schedule `sort`, and by kernels that go on from there.
//
// A kernel that multiplies rows group after group need not wait for another to sort them: each of
// its threads does it for itself, in the time that the other kernel would take, and keeps what
// comes of it from task to task (Keep in tile_ir.h). What is wanted of it elsewhere the first task
// stores.
#pragma once

#include <functional>
#include <vector>

#include "tile/schedules/group_lowering.h"

namespace opweld::tile {

// A sort_by_group in a group of nodes.
struct RowSort {
  const Node* node = nullptr;         // null: nothing is sorted
  std::vector<DomainOutput> outputs;  // outputs of the group that are results of it
  std::vector<const Value*> others;   // outputs that are not
};
RowSort find_row_sort(const Graph& group);

// Emits the passes of the sort. `store` gets each element of its results, 0 the order, 1 the
// places and 2 the counts, once.
using StoreSorted = std::function<Status(int result, Expr index, Expr value)>;
Status emit_row_sort(GroupLowering& lowering, const RowSort& sort, const StoreSorted& store);
// Stores such an element into the outputs that are of that result, if `where` holds.
Status store_sorted(GroupLowering& lowering, const RowSort& sort, int result, Expr index,
                    Expr value, Expr where = kNoExpr);

// At the head of a kernel's tasks: what sorting gives is kept on chip, whence elements of it are
// read from here on. Outputs are stored by the task for which `is_first` holds.
Status keep_sorted(GroupLowering& lowering, const RowSort& sort, Expr is_first);

}  // namespace opweld::tile
