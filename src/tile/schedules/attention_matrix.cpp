// The form of the `attention` schedule for many rows of bf16 where a matrix unit multiplies. Both
// products come out with queries as lanes, so that maxima and sums need no operation across lanes.
// K is read as it lies; V is transposed block by block, the queries and, at the end, the result
// once a task. A panel of 32 queries goes through all of a block of keys by itself, so that its
// scores stay in the nearest cache:
//
//   qt[d/2, q, 2] <- Q block, pairs of it transposed      b of the first product
//   vt[d, t] <- V block, transposed                       a of the second
//   for panels of queries
//     s[t, q] <- K . qt                                   matrix unit
//     s <- score(s); m' <- max(m, max_t s); c <- exp(m - m'); p[t/2, q, 2] <- bf16(exp(s - m'))
//     l <- l * c + sum_t exp(s - m')
//     ot[d, q] <- ot * c + vt . p                         matrix unit
//   o <- ot, transposed
//
// Weights are rounded to bf16 for the second product, as the unit takes nothing else; their sum is
// that of the weights before.
#include <algorithm>
#include <cassert>
#include <vector>

#include "tile/schedules/attention_form.h"

namespace opweld::tile {

namespace {

constexpr std::int64_t kPanel = kMatrixColumns;  // queries
// Keys whose scores are compared at once: a maximum that keeps NaN waits long for the one before.
constexpr std::int64_t kComparedAtOnce = 8;
static_assert(kMatrixKeyBlock % kMatrixDepth == 0);
// V's elements go by whole tiles of the unit, so that it need not be told of others.
constexpr std::int64_t kTileRows = kMatrixRows / 2;

class MatrixForm : public AttentionForm {
 public:
  MatrixForm(GroupLowering& lowering, const Attention& attention, const AttentionTask& task,
             AttentionScores& scores)
      : AttentionForm(lowering, attention, task, scores,
                      round_up(attention.value_head, Dim(kTileRows))),
        keys_(lowering, places_, attention.k, AttentionOperand::InPlace::SideBySide, kMatrixDepth,
              DType::BF16),
        values_(lowering, places_, attention.v, AttentionOperand::InPlace::SideBySide, 1,
                DType::BF16),
        depth_(round_up(attention.head, Dim(kMatrixDepth))),
        panels_(task.row_block / kPanel) {
    // Steps of the unit go past the last key, and panels past the last query, up to these.
    assert(task.key_block % kMatrixDepth == 0 && task.row_block % kPanel == 0);
  }

  void make_buffers() override {
    query_rows_ = cache("qr", {kPanel, depth_}, DType::BF16);
    queries_ = cache("qt", {panels_, depth_ * kPanel}, DType::BF16);
    block_ = cache("s", {task_.key_block, kPanel});
    weights_ = cache("p", {task_.key_block * kPanel}, DType::BF16);
    transposed_values_ = cache("vt", {width_, task_.key_block}, DType::BF16);
    transposed_result_ = cache("ot", {panels_, width_, kPanel});
    AttentionForm::make_buffers();
    keys_.make_buffer("kp", task_.key_block);
    values_.make_buffer("vp", task_.key_block);
  }

  // Columns past the last row and elements past the head hold zeros.
  Status load_queries() override {
    return each_panel([&](Expr panel) -> Status {
      OPWELD_CHECK(lowering_.serial("q", Dim(kPanel), [&](Expr row) {
        return lowering_.vector("d", depth_, 1, [&](Expr d) -> Status {
          const Expr local = math_.add(math_.mul(panel, Dim(kPanel)), row);
          OPWELD_TRY(const Expr value, scores_.query_element(math_.add(task_.row0, local), d));
          program_.store(program_.at(query_rows_, {row, d}), value);
          return {};
        });
      }));
      Transpose transpose;
      transpose.to = program_.at_offset(queries_, math_.mul(panel, depth_ * kPanel));
      transpose.to_row_stride = math_.constant(2 * kPanel);
      transpose.from = program_.at_offset(query_rows_, 0);
      transpose.from_row_stride = math_.size(depth_);
      transpose.rows = math_.constant(kPanel);
      transpose.columns = math_.size(floor_div(depth_, Dim(2)));
      transpose.pairs = true;
      program_.transpose(std::move(transpose));
      return {};
    });
  }

  void reset() override {
    AttentionForm::reset();
    clear(transposed_result_, width_ * task_.row_block);
  }

  Status emit_key_block(Expr key0, Expr count, Expr careful) override {
    OPWELD_CHECK(keys_.pack(key0, count, task_.key_block));
    OPWELD_CHECK(values_.pack(key0, count, task_.key_block));
    transpose_values(key0, count);
    return each_panel([&](Expr panel) -> Status {
      const Expr seen = seen_keys(panel, key0, count);
      Status status;
      program_.when(exprs_.binary(ExprKind::Lt, math_.constant(0), seen), [&] {
        const ElementBuilder::Scope scope(lowering_.elements());
        status = emit_panel(panel, key0, seen, careful);
      });
      return status;
    });
  }

  Status finish() override {
    return each_panel([&](Expr panel) -> Status {
      Transpose transpose;
      const Dim size = width_ * kPanel;
      transpose.to = program_.at_offset(result_, math_.mul(panel, size));
      transpose.to_row_stride = math_.size(width_);
      transpose.from = program_.at_offset(transposed_result_, math_.mul(panel, size));
      transpose.from_row_stride = math_.constant(kPanel);
      transpose.rows = math_.size(width_);
      transpose.columns = math_.constant(kPanel);
      program_.transpose(std::move(transpose));
      return {};
    });
  }

 private:
  Status each_panel(const std::function<Status(Expr panel)>& body) {
    const Expr used = exprs_.binary(ExprKind::Div, program_.add(task_.row_count, kPanel - 1),
                                    math_.constant(kPanel));
    return lowering_.serial("p", used, Dim(panels_), body);
  }

  // vt <- V at the block's keys, zeros up to a whole step of the unit.
  void transpose_values(Expr key0, Expr count) {
    const Expr first = math_.constant(0);
    Transpose transpose;
    transpose.to = program_.at_offset(transposed_values_, first);
    transpose.to_row_stride = math_.constant(task_.key_block);
    transpose.from = values_.at(key0, first, first);
    transpose.from_row_stride = values_.row_stride();
    transpose.rows = count;
    transpose.columns = math_.size(attention_.value_head);
    program_.transpose(std::move(transpose));
  }

  // Of the block's keys, those up to the last that a query of the panel sees; may be negative.
  Expr seen_keys(Expr panel, Expr key0, Expr count) {
    const bool bounded = attention_.causal != "none" || attention_.window_right >= 0;
    if (task_.head == kNoExpr || !bounded || panels_ == 1) return count;
    const Expr first = math_.mul(panel, Dim(kPanel));
    AttentionTask queries = task_;
    queries.row0 = math_.add(task_.row0, first);
    queries.row_count = program_.min(program_.sub(task_.row_count, first), kPanel);
    const KeyRange visible = AttentionScores(lowering_, attention_, queries).visible_keys();
    return program_.map(program_.min(program_.sub(visible.end, key0), count), "seen");
  }

  Expr whole_steps(Expr count) {
    return exprs_.binary(ExprKind::And, program_.add(count, kMatrixDepth - 1),
                         math_.constant(-kMatrixDepth));
  }

  Status emit_panel(Expr panel, Expr key0, Expr count, Expr careful) {
    emit_products(panel, key0, count);
    OPWELD_CHECK(emit_softmax(panel, key0, count));
    return either(
        careful, [&] { return weighted_sum(panel, count); },
        [&] { return careful_weighted_sum(panel, key0, count); });
  }

  // s[t, q] <- K[key0 + t] . q
  void emit_products(Expr panel, Expr key0, Expr count) {
    program_.serial("t", count, kMatrixRows, [&](Expr t) {
      MatrixDot dot;
      dot.accumulator = program_.at_offset(block_, math_.mul(t, Dim(kPanel)));
      dot.accumulator_row_stride = math_.constant(kPanel);
      dot.from_zero = exprs_.constant(1, DType::Bool);
      dot.a = keys_.at(key0, t, math_.constant(0));
      dot.a_row_stride = keys_.row_stride();
      dot.b = program_.at_offset(queries_, math_.mul(panel, depth_ * kPanel));
      dot.depth = math_.size(depth_);
      dot.row_count = program_.min(program_.sub(count, t), kMatrixRows);
      program_.matrix_dot(std::move(dot));
    });
  }

  // Scores, weights, correction and sum of this block, a lane for each query.
  Status emit_softmax(Expr panel, Expr key0, Expr count) {
    return lowering_.vector("j", Dim(kPanel), 1, [&](Expr j) -> Status {
      const Expr local = math_.add(math_.mul(panel, Dim(kPanel)), j);
      const Expr old_maximum = program_.load(program_.at(maximum_, {local}));
      OPWELD_TRY(const Expr new_maximum, emit_scores(key0, count, local, j, old_maximum));
      const Expr shift = shift_of(new_maximum);
      const Expr sum = emit_weights(count, j, shift);
      advance(local, {old_maximum, new_maximum, shift, sum});
      return {};
    });
  }

  // s <- score(s), and -inf up to a whole step of the unit; returns the maximum.
  Expected<Expr> emit_scores(Expr key0, Expr count, Expr local, Expr j, Expr maximum) {
    const auto score_at = [&](Expr t) -> Expected<Expr> {
      const Access at = program_.at(block_, {t, j});
      OPWELD_TRY(const Expr score, scores_.score(program_.load(at), math_.add(task_.row0, local),
                                                 math_.add(key0, t)));
      const Expr kept = program_.map(score);
      program_.store(at, kept);
      return kept;
    };
    const auto maximum_of = [&](Expr first, Expr end, std::int64_t at_once) -> Expected<Expr> {
      Status status;
      Expr found = kNoExpr;
      program_.serial("t", program_.sub(end, first), at_once, [&](Expr step) {
        const ElementBuilder::Scope scope(lowering_.elements());
        std::vector<Expr> scores;
        for (std::int64_t i = 0; i < at_once && status; ++i) {
          auto score = score_at(math_.add(math_.add(first, step), math_.constant(i)));
          status = score ? Status() : tl::unexpected(score.error());
          if (score) scores.push_back(*score);
        }
        if (!status) return;
        while (scores.size() > 1) {
          const std::size_t half = scores.size() / 2;
          for (std::size_t i = 0; i < half; ++i)
            scores[i] = larger_score(scores[i], scores[half + i]);
          scores.resize(half);
        }
        found = program_.reduce(Combiner::Max, scores.front(), step);
      });
      OPWELD_CHECK(status);
      return found;
    };
    const Expr whole = exprs_.binary(ExprKind::And, count, math_.constant(-kComparedAtOnce));
    OPWELD_TRY(const Expr most, maximum_of(math_.constant(0), whole, kComparedAtOnce));
    OPWELD_TRY(const Expr rest, maximum_of(whole, count, 1));
    program_.serial("t", program_.sub(whole_steps(count), count), [&](Expr step) {
      program_.store(program_.at(block_, {math_.add(count, step), j}), minus_infinity());
    });
    const Expr found = exprs_.binary(ExprKind::Max, most, rest);
    return program_.map(exprs_.binary(ExprKind::Max, maximum, found));
  }

  // p <- exp(s - shift); returns the sum.
  Expr emit_weights(Expr count, Expr j, Expr shift) {
    Expr sum = kNoExpr;
    program_.serial("t", whole_steps(count), 2, [&](Expr t) {
      const auto weight_at = [&](std::int64_t i) {
        const Access at = program_.at(block_, {math_.add(t, math_.constant(i)), j});
        return weight_of(program_.load(at), shift);
      };
      const Expr first = weight_at(0);
      const Expr second = weight_at(1);
      const Expr pair = math_.add(math_.mul(t, Dim(kPanel / 2)), j);
      program_.store_pair(program_.at_offset(weights_, pair), first, second);
      sum = program_.reduce(Combiner::Sum, exprs_.binary(ExprKind::Add, first, second), t);
    });
    return sum;
  }

  // Where row d of the panel's transposed result begins.
  Expr result_row(Expr panel, Expr d) {
    return math_.add(math_.mul(panel, width_ * kPanel), math_.mul(d, Dim(kPanel)));
  }

  Status weighted_sum(Expr panel, Expr count) {
    OPWELD_CHECK(lowering_.serial("d", width_, [&](Expr d) {
      return lowering_.vector(
          "j", Dim(kPanel), static_cast<int>(kPanel) / lowering_.lanes(), [&](Expr j) -> Status {
            const Access at =
                program_.at_offset(transposed_result_, math_.add(result_row(panel, d), j));
            program_.store(at,
                           exprs_.binary(ExprKind::Mul, program_.load(at), correction(panel, j)));
            return {};
          });
    }));
    return lowering_.serial("d", math_.size(width_), width_, kMatrixRows, [&](Expr d) -> Status {
      MatrixDot dot;
      dot.accumulator = program_.at_offset(transposed_result_, result_row(panel, d));
      dot.accumulator_row_stride = math_.constant(kPanel);
      dot.a = program_.at_offset(transposed_values_, math_.mul(d, Dim(task_.key_block)));
      dot.a_row_stride = math_.constant(task_.key_block);
      dot.b = program_.at_offset(weights_, 0);
      dot.depth = whole_steps(count);
      dot.row_count = program_.min(program_.sub(math_.size(width_), d), kMatrixRows);
      program_.matrix_dot(std::move(dot));
      return {};
    });
  }

  Expr correction(Expr panel, Expr j) {
    const Expr local = math_.add(math_.mul(panel, Dim(kPanel)), j);
    return program_.load(program_.at(correction_, {local}));
  }

  Status careful_weighted_sum(Expr panel, Expr key0, Expr count) {
    return lowering_.serial("d", attention_.value_head, [&](Expr d) {
      return lowering_.vector("j", Dim(kPanel), 1, [&](Expr j) -> Status {
        Expr sum = kNoExpr;
        program_.serial("t", count, [&](Expr t) {
          const Expr pair = math_.add(math_.mul(math_.div(t, Dim(2)), Dim(kPanel)), j);
          const Expr place = math_.add(math_.mul(pair, Dim(2)), math_.mod(t, Dim(2)));
          const Expr weight = program_.load(program_.at_offset(weights_, place));
          const Expr value = program_.load(values_.at(key0, t, d));
          const Expr hidden = exprs_.binary(ExprKind::Eq, weight, zero());
          const Expr part =
              exprs_.select(hidden, zero(), exprs_.binary(ExprKind::Mul, weight, value));
          sum = program_.reduce(Combiner::Sum, part, t);
        });
        const Access to =
            program_.at_offset(transposed_result_, math_.add(result_row(panel, d), j));
        const Expr before = exprs_.binary(ExprKind::Mul, program_.load(to), correction(panel, j));
        program_.store(to, exprs_.binary(ExprKind::Add, before, sum));
        return {};
      });
    });
  }

  AttentionOperand keys_, values_;
  Dim depth_;
  std::int64_t panels_;
  MemoryRef query_rows_, queries_, block_, weights_, transposed_values_, transposed_result_;
};

}  // namespace

bool on_matrix_unit(const Attention& attention, const LowerOptions& options) {
  const auto is_bf16 = [](const Value* value) { return value->dtype() == DType::BF16; };
  return options.target->has_amx_bf16 && !options.strict && is_bf16(attention.q) &&
         is_bf16(attention.k) && is_bf16(attention.v);
}

std::int64_t matrix_rows(const Dim& rows, std::int64_t most) {
  // V is transposed once a task: fewer tasks where there are many all the same.
  constexpr std::int64_t kUsual = 4 * kPanel;
  constexpr std::int64_t kMany = 8 * kUsual;
  const auto known = rows.constant();
  const std::int64_t usual = known && *known >= kMany ? 2 * kUsual : kUsual;
  const std::int64_t limit = most != 0 ? most : usual;
  return known ? std::min(limit, (*known + kPanel - 1) / kPanel * kPanel) : limit;
}

std::unique_ptr<AttentionForm> make_matrix_form(GroupLowering& lowering, const Attention& attention,
                                                const AttentionTask& task,
                                                AttentionScores& scores) {
  return std::make_unique<MatrixForm>(lowering, attention, task, scores);
}

}  // namespace opweld::tile
