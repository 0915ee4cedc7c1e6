// Split keys: each chunk's task stores what it has of a row (maximum m, sum l of exp(score - m),
// and o, that sum with V's rows), and the last to arrive combines the chunks of the row, always in
// the order of the keys. Chunks of keys that lengths, causal and the window hide from all rows have
// no part in it, so that a short sequence in a large cache costs what it needs:
//
//   M = max over c of m_c;  w_c = exp(m_c - M);  y = (sum over c of w_c o_c) / (sum over c of w_c
//   l_c)
#include <functional>

#include "tile/schedules/attention_form.h"

namespace opweld::tile {

AttentionPartials::AttentionPartials(GroupLowering& lowering, const Attention& attention,
                                     const AttentionTask& task, const Counts& counts)
    : AttentionPart(lowering, attention, task) {
  const Shape per_chunk{counts.batch, attention.key_heads, task.rows, counts.chunks};
  maximum_ = program_.shared("pm", DType::F32, per_chunk);
  sum_ = program_.shared("pl", DType::F32, per_chunk);
  Shape elements = per_chunk;
  elements.push_back(attention.value_head);
  weighted_ = program_.shared("po", DType::F32, elements);
  counter_ = program_.counter("arrived", {counts.batch, attention.key_heads, counts.row_blocks});
}

Status AttentionPartials::store(AttentionForm& form, Expr chunk) {
  return lowering_.serial("q", task_.row_count, Dim(task_.row_block), [&](Expr local) {
    const Expr row = math_.add(task_.row0, local);
    program_.store(program_.at(maximum_, {task_.batch, task_.key_head, row, chunk}),
                   form.maximum(local));
    program_.store(program_.at(sum_, {task_.batch, task_.key_head, row, chunk}), form.sum(local));
    return lowering_.vector("d", attention_.value_head, 2, [&](Expr d) -> Status {
      program_.store(program_.at(weighted_, {task_.batch, task_.key_head, row, chunk, d}),
                     form.weighted(local, d));
      return {};
    });
  });
}

Status AttentionPartials::combine(Expr row_block, const KeyRange& chunks, const StoreRow& store) {
  const Expr last = program_.arrive(program_.at(counter_, {task_.batch, task_.key_head, row_block}),
                                    program_.sub(chunks.end, chunks.first));
  Status status;
  program_.when(last, [&] {
    status = lowering_.serial("q", task_.row_count, Dim(task_.row_block), [&](Expr local) {
      const Expr row = math_.add(task_.row0, local);
      math_.set_bound(row, task_.rows);
      return combine_row(row, chunks, store);
    });
  });
  return status;
}

Status AttentionPartials::combine_row(Expr row, const KeyRange& chunks, const StoreRow& store) {
  const auto of_chunk = [&](MemoryRef memory, Expr chunk) {
    return program_.load(program_.at(memory, {task_.batch, task_.key_head, row, chunk}));
  };
  // `term` of every chunk, in their order.
  const auto over_chunks = [&](Combiner combiner, const std::function<Expr(Expr chunk)>& term) {
    Expr result = kNoExpr;
    program_.serial("c", program_.sub(chunks.end, chunks.first), [&](Expr step) {
      result = program_.reduce(combiner, term(program_.add(chunks.first, step)), step);
    });
    return result;
  };
  const Expr maximum =
      over_chunks(Combiner::Max, [&](Expr chunk) { return of_chunk(maximum_, chunk); });
  const Expr shift = shift_of(maximum);
  const Expr total = over_chunks(Combiner::Sum, [&](Expr chunk) {
    const Expr weight = weight_of(of_chunk(maximum_, chunk), shift);
    // In the place of the maximum, which has served.
    program_.store(program_.at(maximum_, {task_.batch, task_.key_head, row, chunk}), weight);
    return exprs_.binary(ExprKind::Mul, weight, of_chunk(sum_, chunk));
  });
  return store(row, {maximum, total, [&](Expr d) {
                       return over_chunks(Combiner::Sum, [&](Expr chunk) {
                         const Expr part = program_.load(
                             program_.at(weighted_, {task_.batch, task_.key_head, row, chunk, d}));
                         return exprs_.binary(ExprKind::Mul, of_chunk(maximum_, chunk), part);
                       });
                     }});
}

}  // namespace opweld::tile
