// Parts of the `attention` schedule: what one task computes, and the forms of its inner loops.
// Private to the schedule.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

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
  // Element d of a row's query; 0 in lanes past the last row.
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

// K or V at a task's keys: in place where the micro-kernel can read it, else packed block by block.
class AttentionOperand {
 public:
  // Which rows that can be read in place are.
  enum class InPlace : std::uint8_t { None, SideBySide, Pages };
  // Rows are padded to a multiple of `padding` elements when they are packed.
  AttentionOperand(GroupLowering& lowering, AttentionKeys& keys, const Value* value,
                   InPlace in_place, std::int64_t padding);

  // Declares the buffer if there is one; `rows` keys.
  void make_buffer(std::string_view name, std::int64_t rows);
  // Rows [key0, key0 + count) into the buffer.
  Status pack(Expr key0, Expr count, std::int64_t most);
  // Element `column` of key key0 + t.
  [[nodiscard]] Access at(Expr key0, Expr t, Expr column);
  // From one key to the next; within a run of keys where they are read in pages.
  [[nodiscard]] Expr row_stride();
  [[nodiscard]] bool in_pages() const { return strided_ && keys_.paged(); }
  [[nodiscard]] const Dim& padded_width() const { return padded_; }

 private:
  GroupLowering& lowering_;
  AttentionKeys& keys_;
  const Value* value_;
  Dim width_, padded_;
  std::optional<StridedOperand> strided_;
  std::optional<MemoryRef> buffer_;
};

// The inner loops: from a block of keys to the running maximum, sum and weighted sum of each row.
// Forms differ in what vector lanes are.
class AttentionForm : protected AttentionPart {
 public:
  AttentionForm(GroupLowering& lowering, const Attention& attention, const AttentionTask& task,
                AttentionScores& scores, AttentionOperand::InPlace values_in_place);
  virtual ~AttentionForm() = default;

  // Keys of a block; blocks begin at multiples of it.
  [[nodiscard]] virtual std::int64_t key_block() const = 0;
  virtual void make_buffers();
  virtual Status load_queries() = 0;
  void reset();
  // Before a block of keys is emitted.
  Status find_keys(Expr key0, Expr count, const KeyRange& visible) {
    return places_.find(key0, count, visible);
  }
  // `careful`: whether weights of 0 keep out what V holds, which a multiplication would let in
  // where that is no number; slow. kNoExpr: no.
  virtual Status emit_key_block(Expr key0, Expr count, Expr careful) = 0;
  // 0 if every weighted sum is a finite number, else NaN.
  Expr unsound();

  // State of a row of the task: maximum, sum of exp(score - maximum), and of that times V.
  [[nodiscard]] Expr maximum(Expr local) { return program_.load(program_.at(maximum_, {local})); }
  [[nodiscard]] Expr sum(Expr local) { return program_.load(program_.at(sum_, {local})); }
  [[nodiscard]] Expr weighted(Expr local, Expr d) {
    return program_.load(program_.at(result_, {local, d}));
  }

 protected:
  // The weighted sum: result[row, :] <- result[row, :] * correction[row] + weights . V,
  // where the weight of row i at key t is at weights @ i * row_stride + t * key_stride.
  struct Weights {
    MemoryRef buffer;
    Expr row_stride;
    Expr key_stride;
  };
  struct Tiles {
    int rows;
    int most_vectors;
  };
  Status weighted_sum(const Weights& weights, const Tiles& tiles, Expr key0, Expr count,
                      Expr careful);
  MemoryRef cache(std::string_view name, Shape shape) {
    return program_.buffer(name, DType::F32, std::move(shape), Buffer::Space::Cache);
  }
  // The state of a row after a block of keys: what it had, at the new maximum, and the block's sum
  // of weights. The correction is what its weighted sum has yet to be multiplied by.
  struct BlockStep {
    Expr old_maximum, new_maximum;
    Expr shift;  // by which the block's scores were shifted
    Expr sum;    // of the block's weights
  };
  void advance(Expr row, const BlockStep& step);
  [[nodiscard]] std::optional<std::int64_t> known_key_count() const;
  [[nodiscard]] std::optional<std::int64_t> known_row_count() const;
  AttentionScores& scores_;
  AttentionKeys places_;
  AttentionOperand values_;
  MemoryRef maximum_, sum_, correction_, result_;

 private:
  Status tiled_weighted_sum(const Weights& weights, const Tiles& tiles, Expr key0, Expr count);
  Status paged_weighted_sum(const Weights& weights, const Tiles& tiles, Expr key0, Expr count);
  // Adds weights . V for `count` keys from key0 + t0 on. `corrects`: to the corrected result.
  Status add_tiles(const Weights& weights, const Tiles& tiles, Expr key0, Expr t0, Expr count,
                   bool corrects);
  Status careful_weighted_sum(const Weights& weights, Expr key0, Expr count);
};

// Lanes are rows: for many of them.
std::unique_ptr<AttentionForm> make_row_lanes_form(GroupLowering& lowering,
                                                   const Attention& attention,
                                                   const AttentionTask& task,
                                                   AttentionScores& scores);
// Rows of such a task; `most` where it is not 0, a multiple of two vectors, replaces the usual
// number.
std::int64_t row_lanes_block(const Target& target, const Dim& rows, std::int64_t most = 0);

// Lanes are elements of the head, then keys: for very few rows, which K and V stream by.
std::unique_ptr<AttentionForm> make_key_lanes_form(GroupLowering& lowering,
                                                   const Attention& attention,
                                                   const AttentionTask& task,
                                                   AttentionScores& scores);
inline constexpr std::int64_t kKeyLanesRows = 4;
// Keys of a block of either form, where nothing else is chosen. The scores of a task, 96 keys of 96
// rows in lanes of 16 or 4 rows of 128 keys, stay in a first-level cache of 48 KiB together with
// the rows of K or V that meet them.
inline constexpr std::int64_t kRowLanesBlock = 96;
inline constexpr std::int64_t kKeyLanesBlock = 128;

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
