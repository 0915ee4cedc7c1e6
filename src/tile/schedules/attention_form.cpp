// What the forms of the `attention` schedule have in common: the state of a row.
#include "tile/schedules/attention_form.h"

namespace opweld::tile {

AttentionForm::AttentionForm(GroupLowering& lowering, const Attention& attention,
                             const AttentionTask& task, AttentionScores& scores, Dim width)
    : AttentionPart(lowering, attention, task),
      scores_(scores),
      places_(lowering, attention, task),
      width_(std::move(width)) {}

void AttentionForm::make_buffers() {
  maximum_ = cache("m", {task_.row_block});
  sum_ = cache("l", {task_.row_block});
  correction_ = cache("c", {task_.row_block});
  result_ = cache("o", {task_.row_block, width_});
  places_.make_buffers(task_.key_block);
}

void AttentionForm::reset() {
  const ProgramBuilder::VectorOptions options{.unroll = 1, .lanes = lowering_.lanes()};
  program_.vector("j", task_.row_block, options, [&](Expr j) {
    program_.store(program_.at(maximum_, {j}), minus_infinity());
    program_.store(program_.at(sum_, {j}), zero());
  });
  clear(result_, width_ * task_.row_block);
}

void AttentionForm::clear(MemoryRef buffer, const Dim& count) {
  program_.vector("j", count, {.unroll = 1, .lanes = lowering_.lanes()},
                  [&](Expr j) { program_.store(program_.at_offset(buffer, j), zero()); });
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
  if (attention_.keys.divisible_by(task_.key_block)) return task_.key_block;
  const auto keys = attention_.keys.constant();
  if (keys && *keys <= task_.key_block) return keys;
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
  program_.vector("j", width_ * task_.row_block, options, [&](Expr j) {
    const Expr element = program_.load(program_.at_offset(result_, j));
    const Expr difference = exprs_.binary(ExprKind::Sub, element, element);
    sum = program_.reduce(Combiner::Sum, difference, j);
  });
  return sum;
}

Status AttentionForm::either(Expr careful, const std::function<Status()>& usual,
                             const std::function<Status()>& slow) {
  if (careful == kNoExpr) return usual();
  Status status;
  const auto when = [&](Expr condition, const std::function<Status()>& body) {
    program_.when(condition, [&] {
      const ElementBuilder::Scope scope(lowering_.elements());
      status = body();
    });
  };
  when(exprs_.unary(ExprKind::Not, careful), usual);
  if (status) when(careful, slow);
  return status;
}

}  // namespace opweld::tile
