// The form of the `attention` schedule for many rows: scores are held transposed, keys by rows and
// rows of the result by lanes, so that maxima and sums need no operation across lanes and neither K
// nor V has to be rearranged.
//
//   qt[d, q] <- Q block, transposed
//   s[t, q] <- score(dot(K, qt))                       scale, soft cap, masks: one expression
//   m' <- max(m, max_t s); s <- exp(s - m'); c <- exp(m - m'); l <- l * c + sum_t s
//   o[q, d] <- o * c + dot(s^T, V)
#include "tile/schedules/attention_form.h"
#include "tile/schedules/register_tile.h"

namespace opweld::tile {

namespace {

constexpr std::int64_t kPanels = 3;  // whole tiles of rows as well as of columns: 6 x 16, 12 x 32
// Scores of a row that are compared at once: a maximum that keeps NaN waits long for the one before
// it.
constexpr std::int64_t kScoreRows = 4;
static_assert(kRowLanesBlock % kScoreRows == 0);

class RowLanesForm : public VectorForm {
 public:
  RowLanesForm(GroupLowering& lowering, const Attention& attention, const AttentionTask& task,
               AttentionScores& scores)
      // Pages are packed, at little cost beside so many rows.
      : VectorForm(lowering, attention, task, scores, AttentionOperand::InPlace::SideBySide),
        keys_(lowering, places_, attention.k,
              attention.k->dtype() == DType::F32 ? AttentionOperand::InPlace::SideBySide
                                                 : AttentionOperand::InPlace::None,
              1) {
    // As many accumulators as in `contract`. Two vectors of rows, for short sequences' sake; one
    // where there are so few.
    const std::int64_t lanes = lowering.lanes();
    tile_columns_ = static_cast<int>(task.row_block == lanes ? lanes : 2 * lanes);
    panels_ = task.row_block / tile_columns_;
    tile_rows_ = lowering.options().target->vector_registers >= 32 ? 12 : 6;
    // One of several forms in a kernel, for rows that K and V stream by: less code.
    const bool few_of_many = task.head == kNoExpr && !task.rows.is_constant();
    if (few_of_many) tile_rows_ = lowering.options().target->vector_registers >= 32 ? 8 : 4;
  }

  void make_buffers() override {
    if (transposes()) query_rows_ = cache("qr", {tile_columns_, attention_.head});
    queries_ = cache("qt", {panels_, padded_head(), tile_columns_});
    block_ = cache("s", {task_.key_block, task_.row_block});
    VectorForm::make_buffers();
    keys_.make_buffer("kp", task_.key_block);
  }

  // Lanes past the last row hold zeros and are never stored.
  Status load_queries() override { return transposes() ? transpose_queries() : gather_queries(); }

  Status emit_key_block(Expr key0, Expr count, Expr careful) override {
    OPWELD_CHECK(keys_.pack(key0, count, task_.key_block));
    OPWELD_CHECK(values_.pack(key0, count, task_.key_block));
    OPWELD_CHECK(emit_scores(key0, count));
    OPWELD_CHECK(emit_softmax(count));
    const Weights weights{block_, math_.constant(1), math_.constant(task_.row_block)};
    return weighted_sum(weights, {tile_rows_, 2}, key0, count, careful);
  }

 private:
  // Whether panels are whole blocks of a transposition.
  [[nodiscard]] bool transposes() const {
    return tile_columns_ % (kTransposedBytes / byte_size(DType::F32)) == 0;
  }
  [[nodiscard]] Dim padded_head() const {
    return transposes() ? round_up(attention_.head, Dim(kTransposedRows)) : attention_.head;
  }

  Status transpose_queries() {
    return lowering_.serial("p", Dim(panels_), [&](Expr panel) -> Status {
      OPWELD_CHECK(lowering_.serial("q", Dim(tile_columns_), [&](Expr row) {
        return lowering_.vector("d", attention_.head, 1, [&](Expr d) -> Status {
          const Expr local = math_.add(math_.mul(panel, Dim(tile_columns_)), row);
          OPWELD_TRY(const Expr value, scores_.query_element(math_.add(task_.row0, local), d));
          program_.store(program_.at(query_rows_, {row, d}), value);
          return {};
        });
      }));
      Transpose transpose;
      transpose.to = program_.at_offset(queries_, math_.mul(panel, padded_head() * tile_columns_));
      transpose.to_row_stride = math_.constant(tile_columns_);
      transpose.from = program_.at_offset(query_rows_, math_.constant(0));
      transpose.from_row_stride = transpose.columns = math_.size(attention_.head);
      transpose.rows = math_.constant(tile_columns_);
      program_.transpose(std::move(transpose));
      return {};
    });
  }

  Status gather_queries() {
    return lowering_.serial("d", attention_.head, [&](Expr d) -> Status {
      return lowering_.serial("p", Dim(panels_), [&](Expr panel) -> Status {
        return lowering_.vector("j", Dim(tile_columns_), 1, [&](Expr j) -> Status {
          const Expr local = math_.add(math_.mul(panel, Dim(tile_columns_)), j);
          OPWELD_TRY(const Expr value, scores_.query_element(math_.add(task_.row0, local), d));
          program_.store(program_.at(queries_, {panel, d, j}), value);
          return {};
        });
      });
    });
  }

  // s[t, q] <- score(K[key0 + t] . q)
  Status emit_scores(Expr key0, Expr count) {
    return lowering_.serial("p", used_panels(), Dim(panels_), [&](Expr panel) {
      const Dim panel_size = padded_head() * tile_columns_;
      const DotOperand queries{program_.at_offset(queries_, math_.mul(panel, panel_size)), kNoExpr,
                               math_.constant(tile_columns_)};
      return each_row_tile(lowering_, count, known_key_count(), tile_rows_, [&](int rows, Expr t0) {
        const DotOperand keys{keys_.at(key0, t0, math_.constant(0)), keys_.row_stride(),
                              math_.constant(1)};
        return emit_register_tile(
            lowering_, DType::F32, rows, tile_columns_, keys, queries, math_.size(attention_.head),
            [&](Expr, Expr) -> Expected<Expr> { return zero(); },
            [&](Expr row, Expr column, Expr product) -> Status {
              const Expr t = math_.add(t0, row);
              const Expr local = math_.add(math_.mul(panel, Dim(tile_columns_)), column);
              OPWELD_TRY(const Expr score,
                         scores_.score(product, math_.add(task_.row0, local), math_.add(key0, t)));
              program_.store(program_.at(block_, {t, local}), score);
              return {};
            });
      });
    });
  }

  // Hides the rows of scores between `count` and the next multiple of kScoreRows.
  Status fill_score_rows(Expr count) {
    if (known_key_count().value_or(1) % kScoreRows == 0) return {};
    const Expr missing = exprs_.binary(ExprKind::And, program_.sub(math_.constant(0), count),
                                       math_.constant(kScoreRows - 1));
    return lowering_.serial("t", missing, Dim(kScoreRows - 1), [&](Expr row) {
      return lowering_.vector("j", Dim(task_.row_block), 1, [&](Expr j) -> Status {
        program_.store(program_.at(block_, {math_.add(count, row), j}), minus_infinity());
        return {};
      });
    });
  }

  // Maximum, weights, correction and sum of this block, a lane for each row.
  Status emit_softmax(Expr count) {
    OPWELD_CHECK(fill_score_rows(count));
    return lowering_.vector("j", used_rows(), Dim(task_.row_block), 1, [&](Expr j) -> Status {
      const auto score_at = [&](const Expr t) {
        return program_.load(program_.at(block_, {t, j}));
      };
      Expr block_maximum = kNoExpr;
      static_assert(kScoreRows == 4);
      program_.serial("t", count, kScoreRows, [&](Expr t) {
        const Expr first = larger_score(score_at(t), score_at(math_.add(t, math_.constant(1))));
        const Expr second = larger_score(score_at(math_.add(t, math_.constant(2))),
                                         score_at(math_.add(t, math_.constant(3))));
        block_maximum = program_.reduce(Combiner::Max, larger_score(first, second), t);
      });
      const Expr old_maximum = program_.load(program_.at(maximum_, {j}));
      const Expr new_maximum =
          program_.map(exprs_.binary(ExprKind::Max, old_maximum, block_maximum));
      const Expr shift = shift_of(new_maximum);
      Expr block_sum = kNoExpr;
      program_.serial("t", count, [&](Expr t) {
        const Expr weight = weight_of(score_at(t), shift);
        program_.store(program_.at(block_, {t, j}), weight);
        block_sum = program_.reduce(Combiner::Sum, weight, t);
      });
      advance(j, {old_maximum, new_maximum, shift, block_sum});
      return {};
    });
  }

  // Panels and rows that hold at least one row: a short block costs what it needs.
  Expr used_panels() {
    return exprs_.binary(ExprKind::Div, program_.add(task_.row_count, tile_columns_ - 1),
                         math_.constant(tile_columns_));
  }
  Expr used_rows() { return program_.mul(used_panels(), tile_columns_); }

  AttentionOperand keys_;
  int tile_columns_, tile_rows_;
  std::int64_t panels_;
  MemoryRef query_rows_, queries_, block_;
};

}  // namespace

std::int64_t row_lanes_block(const Target& target, const Dim& rows, std::int64_t most) {
  const std::int64_t lanes = target.vector_bits / 32;
  const auto known = rows.constant();
  if (known && *known <= lanes) return lanes;
  if (known && *known <= 2 * lanes) return 2 * lanes;
  return most != 0 ? most : kPanels * 2 * lanes;
}

std::unique_ptr<AttentionForm> make_row_lanes_form(GroupLowering& lowering,
                                                   const Attention& attention,
                                                   const AttentionTask& task,
                                                   AttentionScores& scores) {
  return std::make_unique<RowLanesForm>(lowering, attention, task, scores);
}

}  // namespace opweld::tile
