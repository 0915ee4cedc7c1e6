// Rows shared out among groups by bounds that are data (see ops/row_groups.h), inside a task that
// owns a block of rows whatever groups they are in.
//
// Tasks are cut by rows, so the work of each is known from sizes alone, and threads share it evenly
// however ragged the groups are; a group is found by its bounds. Bounds are one number a group: for
// a task to walk all of them is little beside the rows that it multiplies.
#pragma once

#include <functional>

#include "tile/schedules/group_lowering.h"

namespace opweld::tile {

class RowGroups {
 public:
  // Of the grouped_matmul `node`, whose first operand has the rows and whose third the bounds.
  RowGroups(GroupLowering& lowering, const Node& node);

  // At the head of a task: checks that the bounds share out the rows, every one of them in every
  // task, so that no row is written where they do not, and keeps where each group starts.
  Status emit_starts();

  // Opens a loop over the groups that have rows among the `count` from `first` on; `body` gets the
  // group, its first row there and how many they are.
  using Body = std::function<Status(Expr group, Expr first, Expr count)>;
  Status each_group(Expr first, Expr count, const Body& body);

 private:
  // Of group `group`, which starts at row `start`: checks its bound and returns the row it ends
  // before.
  Expr emit_end(Expr group, Expr start, Expr bound);
  // How many groups there are for whose rows, from `start` to `stop`, the condition holds.
  Expr count_groups(const std::function<Expr(Expr start, Expr stop)>& counts);
  std::string message(std::string_view fault) const;

  GroupLowering& lowering_;
  const Node& node_;
  Dim groups_;
  Dim rows_;
  MemoryRef starts_;
};

}  // namespace opweld::tile
