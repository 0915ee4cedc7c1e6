// Statistics of a matmul's rows, out of its epilogue: row sums of squares and row maxima for the
// norm behind it, the position of the greatest logit, and what follows from these alone, such as
// rsqrt(sum / N + epsilon).
//
// Tasks have some columns of a row each. What a task has of a statistic it stores in a shared
// param, one number for every vector of columns; the last task of a block of rows to arrive
// combines those of each row, in the order of the columns. So neither the threads nor the sizes of
// blocks change a bit:
//
//     for rows, for vectors of columns:
//       store p[row, n / lanes] <- reduce of y[row, n], n + 1 ...
//     arrive at the block of rows; the last:
//       for rows:  q <- reduce of p[row, :];  store s[row] <- tail(q)
//
// With strict numerics elements are combined in the order in which a kernel of the reduction alone
// would take them (tile_ir.h), which goes through whole rows. The shared param then has each of
// them, and rows are reduced as they would be there.
#pragma once

#include <span>
#include <vector>

#include "tile/schedules/contract_blocking.h"
#include "tile/schedules/contraction.h"
#include "tile/schedules/group_lowering.h"

namespace opweld::tile {

// What a group has of them.
struct RowReductions {
  struct Reduction {
    const Node* node;
    DomainOutput operand = {};  // over what the matmul's tiles hold
  };
  std::vector<Reduction> reductions;
  std::vector<DomainOutput> outputs;  // made of these; over one element for each row
};

// Finds reductions of what the matmul makes, among nodes of a group of which `results` are wanted,
// and where all other results are over the matmul's (find_results). Fails where the tiles of a
// matmul and its rows' statistics do not give all of it: a reduction that needs another's result,
// an output that needs a statistic and then the row again.
Expected<RowReductions> find_row_reductions(std::span<const Node* const> nodes,
                                            std::span<const Value* const> results,
                                            Contraction& contraction);

// What a task does for them.
class RowStatistics {
 public:
  // After bind_params.
  RowStatistics(GroupLowering& lowering, const Contraction& contraction, RowReductions found,
                const ContractBlocking& blocking);

  // A row, or an element of it: `row` is the matmul's, its leading axes merged where the matmul
  // merges them.
  struct Place {
    Index batch;
    Expr row = kNoExpr;
    Expr column = kNoExpr;  // of each part
  };
  // Takes the elements of one vector, at `index` of the result, whose lanes are the loop `lane`;
  // those that are not `inside` do not count.
  Status take(const Place& place, std::span<const Expr> index, Expr inside, Expr lane);
  // Behind that loop, with the place of the first lane.
  void store_vector(const Place& place);

  // When the task has stored its elements of `row_count` rows from `first` on.
  Status combine(const Place& first, Expr row_count);

 private:
  // Of one reduction, by row and vector of columns, or by row and column where `exact_`.
  struct Partials {
    MemoryRef values;
    std::optional<MemoryRef> positions = {};  // of arg-reductions
    Expr value = kNoExpr;                     // of the vector that is taken now
    Expr position = kNoExpr;
  };

  Access at(MemoryRef partials, const Place& place, Expr unit);
  Expr identity(Combiner combiner, DType type);
  Status combine_row(const Place& place);
  void define_result(const RowReductions::Reduction& reduction, Expr total, const Place& place);
  // Where the row is in a tensor of that shape, which has one element for each.
  Index row_index(const Shape& shape, const Place& place);

  GroupLowering& lowering_;
  ProgramBuilder& program_;
  IndexMath& math_;
  const Contraction& contraction_;
  RowReductions found_;
  bool exact_;
  int lanes_;
  Dim units_;  // of a row
  std::int64_t block_rows_;
  std::int64_t block_width_;  // columns of a task, of each part
  Shape rows_;                // of the matmul: batch axes, rows
  std::vector<Partials> partials_;
  MemoryRef counter_;
};

}  // namespace opweld::tile
