// Forms of the inner loops of the `attention` schedule. Private to the schedule.
#pragma once

#include "tile/schedules/attention_task.h"

namespace opweld::tile {

// K or V at a task's keys: in place where the micro-kernel can read it, else packed block by block.
class AttentionOperand {
 public:
  // Which rows that can be read in place are.
  enum class InPlace : std::uint8_t { None, SideBySide, Pages };
  // Rows that are packed are padded with zeros to a multiple of `padding` elements; only rows that
  // need none are read in place.
  AttentionOperand(GroupLowering& lowering, AttentionKeys& keys, const Value* value,
                   InPlace in_place, std::int64_t padding, DType packed = DType::F32);

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
  // The row of `value` at this index, but for the element, as row t of the buffer.
  Status pack_row(const Value* value, const Index& row, Expr t);

  GroupLowering& lowering_;
  AttentionKeys& keys_;
  const Value* value_;
  Dim width_, padded_;
  DType packed_;
  bool joined_;  // of past and new rows (attention_joined.cpp), which are read from where these are
  std::optional<StridedOperand> strided_;
  std::optional<MemoryRef> buffer_;
};

// The inner loops: from a block of keys to the running maximum, sum and weighted sum of each row.
// Forms differ in what vector lanes are, and in what multiplies.
class AttentionForm : protected AttentionPart {
 public:
  // `width`: elements of a row's weighted sum, with those that pad it.
  AttentionForm(GroupLowering& lowering, const Attention& attention, const AttentionTask& task,
                AttentionScores& scores, Dim width);
  virtual ~AttentionForm() = default;

  virtual void make_buffers();
  virtual Status load_queries() = 0;
  virtual void reset();
  // Before a block of keys is emitted.
  Status find_keys(Expr key0, Expr count, const KeyRange& visible) {
    return places_.find(key0, count, visible);
  }
  // `careful`: whether weights of 0 keep out what V holds, which a multiplication would let in
  // where that is no number; slow. kNoExpr: no.
  virtual Status emit_key_block(Expr key0, Expr count, Expr careful) = 0;
  // After all blocks of keys, before the state is read.
  virtual Status finish() { return {}; }
  // 0 if every weighted sum is a finite number, else NaN.
  Expr unsound();

  // State of a row of the task: maximum, sum of exp(score - maximum), and of that times V.
  [[nodiscard]] Expr maximum(Expr local) { return program_.load(program_.at(maximum_, {local})); }
  [[nodiscard]] Expr sum(Expr local) { return program_.load(program_.at(sum_, {local})); }
  [[nodiscard]] Expr weighted(Expr local, Expr d) {
    return program_.load(program_.at(result_, {local, d}));
  }

 protected:
  MemoryRef cache(std::string_view name, Shape shape, DType dtype = DType::F32) {
    return program_.buffer(name, dtype, std::move(shape), Buffer::Space::Cache);
  }
  // Zeros in a whole buffer of so many elements, a multiple of a vector.
  void clear(MemoryRef buffer, const Dim& count);
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
  // One of two statements, by `careful`, or the first.
  Status either(Expr careful, const std::function<Status()>& usual,
                const std::function<Status()>& slow);

  AttentionScores& scores_;
  AttentionKeys places_;
  Dim width_;
  MemoryRef maximum_, sum_, correction_, result_;
};

// What the forms that multiply in vectors have in common: the weighted sum.
class VectorForm : public AttentionForm {
 public:
  VectorForm(GroupLowering& lowering, const Attention& attention, const AttentionTask& task,
             AttentionScores& scores, AttentionOperand::InPlace values_in_place);

  void make_buffers() override;

 protected:
  // result[row, :] <- result[row, :] * correction[row] + weights . V,
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

  AttentionOperand values_;

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

// Products on a matrix unit, lanes are rows: for many rows of bf16.
std::unique_ptr<AttentionForm> make_matrix_form(GroupLowering& lowering, const Attention& attention,
                                                const AttentionTask& task, AttentionScores& scores);
// Whether it serves. Weights are rounded to bf16 in it.
bool on_matrix_unit(const Attention& attention, const LowerOptions& options);
// Rows of its tasks; `most` where it is not 0, a multiple of kMatrixColumns, replaces the usual
// number.
std::int64_t matrix_rows(const Dim& rows, std::int64_t most = 0);
inline constexpr std::int64_t kMatrixKeyBlock = 128;

}  // namespace opweld::tile
