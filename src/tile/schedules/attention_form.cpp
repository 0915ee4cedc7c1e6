// What the forms of the `attention` schedule have in common: how K and V are read, the state of a
// row, and the weighted sum of V's rows.
#include <limits>

#include "tile/schedules/attention_task.h"
#include "tile/schedules/register_tile.h"

namespace opweld::tile {

AttentionOperand::AttentionOperand(GroupLowering& lowering, AttentionKeys& keys, const Value* value,
                                   InPlace in_place, std::int64_t padding)
    : lowering_(lowering),
      keys_(keys),
      value_(value),
      width_(value->shape()[3]),
      padded_(round_up(width_, Dim(padding))) {
  const InPlace needed = keys.paged() ? InPlace::Pages : InPlace::SideBySide;
  if (in_place < needed || !(padded_ == width_)) return;
  strided_ = lowering.strided_operand(value);
  const bool unit = strided_ && (strided_->view.strides[3] == Dim(1) || width_ == Dim(1));
  if (!unit) strided_.reset();
}

void AttentionOperand::make_buffer(std::string_view name, std::int64_t rows) {
  if (strided_) return;
  buffer_ = lowering_.program().buffer(name, DType::F32, {rows, padded_}, Buffer::Space::Cache);
}

Status AttentionOperand::pack(Expr key0, Expr count, std::int64_t most) {
  if (!buffer_) return {};
  IndexMath& math = lowering_.math();
  ExprPool& exprs = lowering_.program().exprs();
  return lowering_.serial("t", count, Dim(most), [&](Expr t) -> Status {
    const Index key = keys_.at(key0, t);
    return lowering_.vector("d", padded_, 1, [&](Expr d) -> Status {
      const Expr inside = exprs.binary(ExprKind::Lt, d, math.size(width_));
      Index index = key;
      index.push_back(d);
      OPWELD_TRY(const Expr element, lowering_.elements().element_where(inside, value_, index));
      lowering_.program().store(lowering_.program().at(*buffer_, {t, d}),
                                exprs.select(inside, element, exprs.constant(0, DType::F32)));
      return {};
    });
  });
}

Access AttentionOperand::at(Expr key0, Expr t, Expr column) {
  IndexMath& math = lowering_.math();
  ProgramBuilder& program = lowering_.program();
  if (buffer_) return program.at_offset(*buffer_, math.add(math.mul(t, padded_), column));
  Expr offset = math.size(strided_->view.offset);
  const Index key = keys_.at(key0, t);
  for (std::size_t axis = 0; axis < key.size(); ++axis) {
    const bool counts = axis == 2 || !(strided_->view.shape[axis] == Dim(1));
    if (counts) offset = math.add(offset, math.mul(key[axis], strided_->view.strides[axis]));
  }
  return program.at_offset(strided_->param, math.add(offset, column));
}

Expr AttentionOperand::row_stride() {
  return lowering_.math().size(buffer_ ? padded_ : strided_->view.strides[2]);
}

AttentionForm::AttentionForm(GroupLowering& lowering, const Attention& attention,
                             const AttentionTask& task, AttentionScores& scores,
                             AttentionOperand::InPlace values_in_place)
    : AttentionPart(lowering, attention, task),
      scores_(scores),
      places_(lowering, attention, task),
      // Whole vectors are read, so rows that are read in place must be whole vectors.
      values_(lowering, places_, attention.v, values_in_place, lowering.lanes()) {}

void AttentionForm::make_buffers() {
  maximum_ = cache("m", {task_.row_block});
  sum_ = cache("l", {task_.row_block});
  correction_ = cache("c", {task_.row_block});
  result_ = cache("o", {task_.row_block, values_.padded_width()});
  places_.make_buffers(key_block());
  values_.make_buffer("vp", key_block());
}

void AttentionForm::reset() {
  const ProgramBuilder::VectorOptions options{.unroll = 1, .lanes = lowering_.lanes()};
  program_.vector("j", task_.row_block, options, [&](Expr j) {
    program_.store(program_.at(maximum_, {j}), minus_infinity());
    program_.store(program_.at(sum_, {j}), zero());
  });
  program_.vector("j", values_.padded_width() * task_.row_block, options,
                  [&](Expr j) { program_.store(program_.at_offset(result_, j), zero()); });
}

void AttentionForm::advance(Expr row, const BlockStep& step) {
  const Expr correction = weight_of(step.old_maximum, step.shift);
  const Expr old_sum = program_.load(program_.at(sum_, {row}));
  const Expr scaled = exprs_.binary(ExprKind::Mul, old_sum, correction);
  program_.store(program_.at(sum_, {row}), exprs_.binary(ExprKind::Add, scaled, step.sum));
  program_.store(program_.at(maximum_, {row}), step.new_maximum);
  program_.store(program_.at(correction_, {row}), correction);
}

std::optional<std::int64_t> AttentionForm::known_key_count() const {
  if (attention_.lengths != nullptr) return std::nullopt;
  if (attention_.keys.divisible_by(key_block())) return key_block();
  const auto keys = attention_.keys.constant();
  if (keys && *keys <= key_block()) return keys;
  return std::nullopt;
}

std::optional<std::int64_t> AttentionForm::known_row_count() const {
  if (task_.rows.divisible_by(task_.row_block)) return task_.row_block;
  const auto rows = task_.rows.constant();
  if (rows && *rows <= task_.row_block) return rows;
  return std::nullopt;
}

Expr AttentionForm::unsound() {
  Expr sum = kNoExpr;
  const ProgramBuilder::VectorOptions options{.unroll = 1, .lanes = lowering_.lanes()};
  program_.vector("j", values_.padded_width() * task_.row_block, options, [&](Expr j) {
    const Expr element = program_.load(program_.at_offset(result_, j));
    const Expr difference = exprs_.binary(ExprKind::Sub, element, element);
    sum = program_.reduce(Combiner::Sum, difference, j);
  });
  return sum;
}

Status AttentionForm::weighted_sum(const Weights& weights, const Tiles& tiles, Expr key0,
                                   Expr count, Expr careful) {
  if (careful == kNoExpr) return tiled_weighted_sum(weights, tiles, key0, count);
  Status status;
  program_.when(exprs_.unary(ExprKind::Not, careful), [&] {
    const ElementBuilder::Scope scope(lowering_.elements());
    status = tiled_weighted_sum(weights, tiles, key0, count);
  });
  OPWELD_CHECK(status);
  program_.when(careful, [&] {
    const ElementBuilder::Scope scope(lowering_.elements());
    status = careful_weighted_sum(weights, key0, count);
  });
  return status;
}

Status AttentionForm::careful_weighted_sum(const Weights& weights, Expr key0, Expr count) {
  return lowering_.serial("r", task_.row_count, Dim(task_.row_block), [&](Expr row) {
    const Expr correction = program_.load(program_.at(correction_, {row}));
    return lowering_.vector("d", values_.padded_width(), 1, [&](Expr d) -> Status {
      Expr sum = kNoExpr;
      program_.serial("t", count, [&](Expr t) {
        const Expr at = program_.add(exprs_.binary(ExprKind::Mul, row, weights.row_stride),
                                     exprs_.binary(ExprKind::Mul, t, weights.key_stride));
        const Expr weight = program_.load(program_.at_offset(weights.buffer, at));
        const Expr value = program_.load(values_.at(key0, t, d));
        const Expr hidden = exprs_.binary(ExprKind::Eq, weight, zero());
        const Expr part =
            exprs_.select(hidden, zero(), exprs_.binary(ExprKind::Mul, weight, value));
        sum = program_.reduce(Combiner::Sum, part, t);
      });
      const Access to = program_.at(result_, {row, d});
      const Expr before = exprs_.binary(ExprKind::Mul, program_.load(to), correction);
      program_.store(to, exprs_.binary(ExprKind::Add, before, sum));
      return {};
    });
  });
}

Status AttentionForm::tiled_weighted_sum(const Weights& weights, const Tiles& tiles, Expr key0,
                                         Expr count) {
  if (values_.in_pages()) return paged_weighted_sum(weights, tiles, key0, count);
  return add_tiles(weights, tiles, key0, math_.constant(0), count, /*corrects=*/true);
}

// The same products in the same order: what lies side by side is added run by run.
Status AttentionForm::paged_weighted_sum(const Weights& weights, const Tiles& tiles, Expr key0,
                                         Expr count) {
  OPWELD_CHECK(lowering_.serial("r", task_.row_count, Dim(task_.row_block), [&](Expr row) {
    const Expr correction = program_.load(program_.at(correction_, {row}));
    return lowering_.vector("d", values_.padded_width(), 1, [&](Expr d) -> Status {
      const Access at = program_.at(result_, {row, d});
      program_.store(at, exprs_.binary(ExprKind::Mul, program_.load(at), correction));
      return {};
    });
  }));
  return places_.each_run(key0, count, [&](Expr t0, Expr run) {
    return add_tiles(weights, tiles, key0, t0, run, /*corrects=*/false);
  });
}

Status AttentionForm::add_tiles(const Weights& weights, const Tiles& tiles, Expr key0, Expr t0,
                                Expr count, bool corrects) {
  const auto tiles_of_width = [&](int width, Expr column0, Expr columns, int rows_at_once) {
    return lowering_.serial("n", columns, values_.padded_width(), [&](Expr step) {
      const Expr column = math_.add(column0, math_.mul(step, Dim(width)));
      const DotOperand values{values_.at(key0, t0, column), kNoExpr, values_.row_stride()};
      return each_row_tile(
          lowering_, task_.row_count, known_row_count(), rows_at_once, [&](int rows, Expr row0) {
            const Expr start = program_.add(exprs_.binary(ExprKind::Mul, row0, weights.row_stride),
                                            program_.mul(t0, weights.key_stride));
            const DotOperand left{program_.at_offset(weights.buffer, start), weights.row_stride,
                                  weights.key_stride};
            const auto place = [&](Expr row, Expr lane) {
              return program_.at(result_, {math_.add(row0, row), math_.add(column, lane)});
            };
            return emit_register_tile(
                lowering_, DType::F32, rows, width, left, values, count,
                [&](Expr row, Expr lane) -> Expected<Expr> {
                  const Expr before = program_.load(place(row, lane));
                  if (!corrects) return before;
                  const Expr correction =
                      program_.load(program_.at(correction_, {math_.add(row0, row)}));
                  return exprs_.binary(ExprKind::Mul, before, correction);
                },
                [&](Expr row, Expr lane, Expr value) -> Status {
                  program_.store(place(row, lane), value);
                  return {};
                });
          });
    });
  };
  // Tiles of full width, then narrower ones for what the head leaves over.
  const int lanes = lowering_.lanes();
  Dim done = 0;
  for (int vectors = tiles.most_vectors; vectors > 0; vectors /= 2) {
    const Dim left = values_.padded_width() - done;
    const Dim steps = floor_div(left, Dim(vectors * lanes));
    if (steps == Dim(0)) continue;
    OPWELD_CHECK(tiles_of_width(vectors * lanes, math_.size(done), math_.size(steps), tiles.rows));
    done += steps * (vectors * lanes);
    // A head of unknown size: what is left takes single vectors.
    if (!attention_.value_head.is_constant() && vectors > 2) vectors = 2;
  }
  return {};
}

}  // namespace opweld::tile
