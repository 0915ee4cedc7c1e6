// Parts of the `attention` schedule: what one task computes, of which rows and keys. Private to the
// schedule; the forms of its inner loops are in attention_form.h.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tile/schedules/group_lowering.h"

namespace opweld::tile {

inline constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// The attention of a group and its attributes.
struct Attention {
  const Node* node;
  const Value *q, *k, *v;
  const Value *mask, *lengths, *slopes, *block_table;  // null where absent
  const Value* lse;                                    // the second result; null where absent
  Dim queries, keys, head, value_head;                 // S, T, D, Dv
  Dim key_heads, heads_per_group;                      // Hkv, Hq / Hkv
  double scale;
  double softcap;
  bool zero_nan_rows;
  std::string causal;
  std::int64_t window_left, window_right;

  // Whether a key that some row sees may be hidden from another.
  [[nodiscard]] bool hides() const { return mask != nullptr || bounds_sight(); }
  // Whether there may be keys that no row sees, as sizes and lengths tell.
  [[nodiscard]] bool skips() const { return lengths != nullptr || bounds_sight(); }

 private:
  [[nodiscard]] bool bounds_sight() const {
    return causal != "none" || window_left >= 0 || window_right >= 0;
  }
};

Expected<Attention> find_attention(const Graph& group);
// Of one among other operators.
Expected<Attention> attention_of(const Node& node);

// K or V that a concat joins of past rows and new ones, and that the group gives out for a later
// run to go on from: a cache that grows by being copied. The tasks of the attention write it, each
// of its elements once, and read past and new rows once for both.
struct JoinedRows {
  const Value* value;  // [B, Hkv, T, D], the result of a concat along T
  std::vector<DomainOutput> outputs;

  // Whether it is itself an output, so that it can be read where it was stored.
  [[nodiscard]] bool is_output() const;
};

// Those of the group; every concat in it must make one.
Expected<std::vector<JoinedRows>> find_joined_rows(const Graph& group, const Attention& attention);

// Of rows [first, end) of a result of a concat along axis 2, those that each operand holds: `body`
// is emitted for each operand, in a loop over its rows; `at` counts them in the result.
using JoinedRow = std::function<Status(const Value* operand, Expr row, Expr at)>;
Status each_joined_row(GroupLowering& lowering, const Value* joined, Expr first, Expr end,
                       const JoinedRow& body);

// Stores rows [first, end) of one head of it.
Status store_joined_rows(GroupLowering& lowering, const JoinedRows& joined, Expr batch,
                         Expr key_head, Expr first, Expr end);

// Whose rows a task computes. Rows are queries of one head, or, where there are few queries, those
// of all heads that share K and V, query by query: how many heads those are is nearly always a
// number, so that it is easily told which row is whose.
struct AttentionTask {
  Expr batch = kNoExpr;
  Expr key_head = kNoExpr;
  Expr head = kNoExpr;                          // absent: all of the group
  Dim queries;                                  // of a head
  Dim rows;                                     // of the head or the group
  Expr row0 = kNoExpr, row_count = kNoExpr;     // rows [row0, row0 + row_count)
  Expr first_key = kNoExpr, end_key = kNoExpr;  // keys [first_key, end_key), all valid
  Expr diagonal = kNoExpr;                      // query q stands at position q + diagonal

  // The task computes at most so many rows, and so many keys at once.
  std::int64_t row_block = 0;
  std::int64_t key_block = 0;
};

// What every part of the schedule has at hand, and how weights come of scores.
class AttentionPart {
 protected:
  AttentionPart(GroupLowering& lowering, const Attention& attention, const AttentionTask& task)
      : lowering_(lowering),
        program_(lowering.program()),
        math_(lowering.math()),
        exprs_(lowering.program().exprs()),
        attention_(attention),
        task_(task) {}

  Expr zero() { return exprs_.constant(0, DType::F32); }
  Expr minus_infinity() { return exprs_.constant(kMinusInfinity, DType::F32); }
  // The larger of two scores; where one is NaN, either. A row with such a score has a sum of
  // weights that is NaN, and so has its result, whatever its maximum is taken to be: one
  // instruction does instead of the several that a maximum takes which keeps NaN.
  Expr larger_score(Expr a, Expr b) {
    return exprs_.select(exprs_.binary(ExprKind::Lt, b, a), a, b);
  }
  // What to shift scores by: the maximum, but 0 while every score is -inf, so that exp(-inf - 0)
  // is the right zero.
  Expr shift_of(Expr maximum) {
    const Expr infinite = exprs_.binary(ExprKind::Eq, maximum, minus_infinity());
    return program_.map(exprs_.select(infinite, zero(), maximum));
  }
  // exp(score - shift), of a score or of the maximum of some.
  Expr weight_of(Expr score, Expr shift) {
    return program_.map(exprs_.unary(ExprKind::Exp, exprs_.binary(ExprKind::Sub, score, shift)));
  }

  GroupLowering& lowering_;
  ProgramBuilder& program_;
  IndexMath& math_;
  ExprPool& exprs_;
  const Attention& attention_;
  const AttentionTask& task_;
};

// Keys, or chunks of them, [first, end) of a sequence.
struct KeyRange {
  Expr first;
  Expr end;
};

// Index expressions and scores of a task.
class AttentionScores : private AttentionPart {
 public:
  AttentionScores(GroupLowering& lowering, const Attention& attention, const AttentionTask& task)
      : AttentionPart(lowering, attention, task) {}

  // Head and query of an absolute row.
  struct Position {
    Expr head;
    Expr query;
  };
  [[nodiscard]] Position position(Expr row);
  // Element d of a row's query; 0 past the last row and past the head.
  Expected<Expr> query_element(Expr row, Expr d);
  // The score program: scale, soft cap, slope, additive mask, then everything that hides a key.
  Expected<Expr> score(Expr product, Expr row, Expr key);

  // Of the task's keys, those that some row of it can see lie in this range. Beyond are blocks that
  // are skipped, not computed.
  [[nodiscard]] KeyRange visible_keys();

 private:
  Expected<Expr> mask(Position at, Expr inside, Expr key);
  Expected<Expr> slope(Position at, Expr inside);
};

// Where the keys of a task lie in K and V.
class AttentionKeys : private AttentionPart {
 public:
  AttentionKeys(GroupLowering& lowering, const Attention& attention, const AttentionTask& task)
      : AttentionPart(lowering, attention, task) {}

  [[nodiscard]] bool paged() const { return attention_.block_table != nullptr; }
  // For blocks of at most so many keys.
  void make_buffers(std::int64_t block);
  // At the head of a block of keys, of which `visible` are seen by some row.
  Status find(Expr key0, Expr count, const KeyRange& visible);
  // Index of key key0 + t of that block into K and V, but for the element of its head.
  [[nodiscard]] Index at(Expr key0, Expr t);
  // Of paged keys: those of the block that lie side by side, `count` of them from t on.
  using Run = std::function<Status(Expr t, Expr count)>;
  Status each_run(Expr key0, Expr count, const Run& body);

 private:
  // Entries of the block table that keys of the block are found by: `count` of them, from the
  // block's key t on.
  Status each_entry(Expr key0, Expr count,
                    const std::function<Status(Expr entry, Expr t, Expr count)>& body);
  // Entry of the block table, which must name a page.
  Expected<Expr> page_of(Expr entry);

  std::int64_t block_ = 0;
  MemoryRef pages_, rows_;
};

// The choices of a kernel by its class and by the default of the tasks that most of its work is in.
BlockingChoices attention_choices(const Attention& attention, const LowerOptions& options,
                                  const AttentionTask& task);

// A row at its end.
struct RowState {
  Expr maximum;  // of its scores
  Expr sum;      // of exp(score - maximum)
  std::function<Expr(Expr d)>
      weighted;  // that sum with V's rows; asked for in a vector loop over d
};

class AttentionForm;

// What tasks that share rows, a chunk of the keys each, hand to the one that combines them.
class AttentionPartials : private AttentionPart {
 public:
  // Partials of each batch element, key head, row and chunk.
  struct Counts {
    Dim batch;
    Dim row_blocks;
    Dim chunks;
  };
  AttentionPartials(GroupLowering& lowering, const Attention& attention, const AttentionTask& task,
                    const Counts& counts);

  Status store(AttentionForm& form, Expr chunk);
  // In the last task to arrive, of those of `chunks`: store the state of each of its rows.
  using StoreRow = std::function<Status(Expr row, const RowState& state)>;
  Status combine(Expr row_block, const KeyRange& chunks, const StoreRow& store);

 private:
  Status combine_row(Expr row, const KeyRange& chunks, const StoreRow& store);

  MemoryRef maximum_, sum_, weighted_, counter_;
};

}  // namespace opweld::tile
