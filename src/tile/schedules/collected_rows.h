// Rows of a grouped matmul that are looked up once all of them are there: the choices of a token,
// which different experts computed, weighed and added up with what else reads them.
//
// Which task computes the row that a look-up asks for only data tells. So tasks store their rows in
// a param that they share, and the last one of those that have the same columns to arrive goes on
// from there:
//
//     store d[row, n] <- epilogue(acc)
//     arrive at the block of columns; the last:
//       for rows of the output, for columns of the block:  y[row, n] <- f(d[place[..], n], ...)
//
// Nobody waits for it, so that is one kernel, and rows are read in an order that no thread changes.
#pragma once

#include <span>
#include <vector>

#include "tile/schedules/group_lowering.h"

namespace opweld::tile {

// What a group has of them.
struct RowCollection {
  const Value* rows = nullptr;        // [M, N] that are looked up; null: none are
  std::vector<const Node*> nodes;     // that need what is looked up
  std::vector<const Value*> outputs;  // that are made of it
  std::vector<const Node*> before;    // all other nodes,
  std::vector<const Value*> wanted;   // and what is wanted of them, the rows among it

  [[nodiscard]] bool collects() const { return rows != nullptr; }
};

// Of the outputs that are given. Fails where what is looked up goes on into more than pointwise
// work and views, column by column.
Expected<RowCollection> find_row_collection(const Graph& group,
                                            std::span<const Value* const> outputs);

// What tasks do for it.
class CollectedRows {
 public:
  // After bind_params. `blocks`: of columns, which different tasks have.
  CollectedRows(GroupLowering& lowering, RowCollection found, const Dim& blocks);

  [[nodiscard]] bool takes(const DomainOutput& output) const {
    return output.output == found_.rows;
  }
  // Stores an element of the rows, in lanes that are `inside`.
  Status store(const DomainOutput& output, std::span<const Expr> index, Expr inside);

  // When the task has stored its rows of columns [column0, column0 + columns), block `block` of
  // those, of at most `width`. So many tasks have it.
  struct Columns {
    Expr block = kNoExpr;
    Expr column0 = kNoExpr;
    Expr columns = kNoExpr;
    Dim width;
  };
  Status collect(const Columns& place, const Dim& tasks);

 private:
  Status store_outputs(const Columns& place);

  GroupLowering& lowering_;
  RowCollection found_;
  MemoryRef shared_;
  MemoryRef counter_;
  Expr column_ = kNoExpr;  // that is stored now
};

}  // namespace opweld::tile
