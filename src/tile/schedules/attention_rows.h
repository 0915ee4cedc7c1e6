// Attention as a stage of a chain: all heads of some queries of a sequence, one after the other.
#pragma once

#include <functional>
#include <span>

#include "tile/schedules/attention_task.h"

namespace opweld::tile {

// Which queries: [first, first + count) of a sequence, at most `most`. The first one stands at a
// multiple of attention_row_block.
struct AttentionRows {
  Expr batch = kNoExpr;
  Expr first = kNoExpr;
  Expr count = kNoExpr;
  std::int64_t most = 0;
};

// Queries that a task of the `attention` schedule takes at once. A result depends on that where V
// holds what is no number, so a stage takes them in the same blocks.
std::int64_t attention_row_block(const Attention& attention, const LowerOptions& options);

// Up to so many queries of a head share a task with those of the other heads of their group, and
// keys are cut into chunks.
inline constexpr std::int64_t kFewQueries = 16;

// Whether the schedule would take any number of queries that the attention may have in such blocks;
// few queries are computed in another order.
bool always_has_many_queries(const Attention& attention);
// Whether it takes so many in such blocks.
bool has_many_queries(const Attention& attention, std::int64_t queries);

// Whether the output has the heads of the attention's result side by side in its rows.
bool puts_heads_side_by_side(const DomainOutput& output);

// Stores an element of an output over the result, at [batch, head, query, d].
using StoreAttention =
    std::function<Status(const DomainOutput& output, std::span<const Expr> index)>;

// Emits them, for `results` over the attention's result. After bind_params.
Status emit_attention_rows(GroupLowering& lowering, const Attention& attention,
                           std::span<const Value* const> results, const AttentionRows& rows,
                           const StoreAttention& store);

}  // namespace opweld::tile
