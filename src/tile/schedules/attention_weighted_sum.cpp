// The weighted sum of V's rows in vectors, for the forms of the `attention` schedule that multiply
// so.
#include "tile/schedules/attention_form.h"
#include "tile/schedules/register_tile.h"

namespace opweld::tile {

VectorForm::VectorForm(GroupLowering& lowering, const Attention& attention,
                       const AttentionTask& task, AttentionScores& scores,
                       AttentionOperand::InPlace values_in_place)
    // Whole vectors are read, so rows that are read in place must be whole vectors.
    : AttentionForm(lowering, attention, task, scores,
                    round_up(attention.value_head, Dim(lowering.lanes()))),
      values_(lowering, places_, attention.v, values_in_place, lowering.lanes()) {}

void VectorForm::make_buffers() {
  AttentionForm::make_buffers();
  values_.make_buffer("vp", task_.key_block);
}

Status VectorForm::weighted_sum(const Weights& weights, const Tiles& tiles, Expr key0, Expr count,
                                Expr careful) {
  return either(
      careful, [&] { return tiled_weighted_sum(weights, tiles, key0, count); },
      [&] { return careful_weighted_sum(weights, key0, count); });
}

Status VectorForm::careful_weighted_sum(const Weights& weights, Expr key0, Expr count) {
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

Status VectorForm::tiled_weighted_sum(const Weights& weights, const Tiles& tiles, Expr key0,
                                      Expr count) {
  if (values_.in_pages()) return paged_weighted_sum(weights, tiles, key0, count);
  return add_tiles(weights, tiles, key0, math_.constant(0), count, /*corrects=*/true);
}

// The same products in the same order: what lies side by side is added run by run.
Status VectorForm::paged_weighted_sum(const Weights& weights, const Tiles& tiles, Expr key0,
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

Status VectorForm::add_tiles(const Weights& weights, const Tiles& tiles, Expr key0, Expr t0,
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
