// A matmul whose columns are heads, some of which are reduced head by head before they are stored:
// the norms of q and k that stand between a projection and a rotary embedding.
//
// A register tile may begin and end within a head, so that no epilogue of a tile has all of one.
// The task keeps its block of the result on chip, a block of whole heads, and goes through it when
// it is complete:
//
//     c <- block of the result
//     for h in heads of the block, for rows:
//       if it belongs to the segment:      (q, or k, or v: some of the columns)
//         q <- sum of c[row, h, :]^2 ...                      passes as in schedule `row`
//         y[.., h, .., d] <- epilogue(c[row, h, d], q, ...)   a part of the head after the other
//
// What the task stores of columns that nobody reduces, v for one, goes by the block as well.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tile/schedules/contraction.h"
#include "tile/schedules/head_segments.h"
#include "tile/schedules/held_values.h"
#include "tile/schedules/staged_reduction.h"

namespace opweld::tile {

struct HeadRows {
  // Something that is stored: over what lies behind views of some of the columns and whatever
  // pointwise operators stand among them.
  struct Result {
    HeadSegment place;  // with one output
    // Elements of a head where one part of what is stored ends and another begins, as the halves
    // that a rotary embedding joins do; 0 and the head's size among them.
    std::vector<std::int64_t> cuts;
  };
  // Some of the columns.
  struct Segment {
    HeadSegment columns;                    // its views lead to what is reduced, if anything is
    std::optional<StagedReduction> passes;  // over the last axis of that
    std::vector<Result> results;
  };
  std::int64_t head = 0;  // columns
  std::vector<Segment> segments;
};

// Whether the reduction is of heads: over fewer columns than the matmul's result has, and not of
// its rows.
bool reduces_heads(const Node& reduction, const Value& matmul_result);

// Finds the heads behind the matmul and where the `results` of `nodes` are over them. Notes in the
// contraction that its result is wanted as it is, and what of the results is over that. Fails where
// a result is of no such form.
Expected<HeadRows> find_head_rows(std::span<const Node* const> nodes,
                                  std::span<const Value* const> results, Contraction& contraction);

// A task's block of the result, kept on chip: [rows, columns], of whole heads.
struct HeadBlock {
  MemoryRef memory = {};
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Expr row0 = kNoExpr;
  Expr row_count = kNoExpr;
  Expr column0 = kNoExpr;
  Expr column_count = kNoExpr;
};
Status emit_head_rows(GroupLowering& lowering, const Contraction& contraction,
                      const HeadRows& heads, HeldValues& held, const HeadBlock& block);

}  // namespace opweld::tile
