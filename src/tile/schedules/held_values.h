// Values that a task of a chain keeps on chip, for its rows, until later stages have read them.
#pragma once

#include <map>
#include <span>

#include "tile/schedules/group_lowering.h"

namespace opweld::tile {

// Row i of the task from element i * stride on.
struct HeldRows {
  MemoryRef memory;
  Dim stride;
};

class HeldValues {
 public:
  HeldValues(GroupLowering& lowering, const Dim& rows, std::int64_t block_rows)
      : lowering_(lowering), rows_(rows), block_rows_(block_rows) {}

  // Bytes that a row of the value takes.
  static std::int64_t row_bytes(const Value* value);

  // Declares the buffer of a value, which is rounded as if it had been stored.
  void add(const Value* value);
  [[nodiscard]] bool has(const Value* value) const { return held_.contains(value); }
  [[nodiscard]] HeldRows rows_of(const Value* value) const { return held_.at(value); }

  // The row that is computed now: row `task_row` of the task, `row` of all.
  void at_row(Expr row, Expr task_row) {
    row_ = row;
    task_row_ = task_row;
  }
  [[nodiscard]] Expr task_row() const { return task_row_; }
  // Stores, in a column of that row, the element at `index` of the value that `output` is made of;
  // lanes that are not `inside` have none. An error where the output has other rows than that
  // value.
  Status store(const DomainOutput& output, std::span<const Expr> index, Expr column, Expr inside);
  // The same where the caller knows that the column of the row that is computed now is the place.
  Status store_there(const DomainOutput& output, std::span<const Expr> index, Expr column,
                     Expr inside);
  // From here on its elements are those that were stored; only those of the row computed now can be
  // asked for.
  void publish(const Value* value);

 private:
  Access place(const HeldRows& held, Expr column);

  GroupLowering& lowering_;
  Dim rows_;
  std::int64_t block_rows_;
  std::map<const Value*, HeldRows> held_;
  Expr row_ = kNoExpr;
  Expr task_row_ = kNoExpr;
};

}  // namespace opweld::tile
