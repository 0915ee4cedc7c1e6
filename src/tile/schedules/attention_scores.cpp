// What a task of the `attention` schedule knows of its rows and keys, and the score program.
#include "tile/schedules/attention_task.h"

namespace opweld::tile {

Expected<Attention> find_attention(const Graph& group) {
  const Node* found = nullptr;
  for (const auto& node : group.nodes()) {
    if (node->op() != "attention") continue;
    if (found != nullptr) return fail("it has two attentions");
    found = node.get();
  }
  if (found == nullptr) return fail("it has no attention");
  return attention_of(*found);
}

Expected<Attention> attention_of(const Node& node) {
  const Attributes& attributes = node.attributes();
  Attention attention{};
  attention.node = &node;
  attention.q = node.operand(0);
  attention.k = node.operand(1);
  attention.v = node.operand(2);
  const auto optional = [&](int index) {
    return node.num_operands() > index ? node.operand(index) : nullptr;
  };
  attention.mask = optional(3);
  attention.lengths = optional(4);
  attention.slopes = optional(5);
  attention.block_table = optional(6);
  attention.lse = node.num_results() > 1 ? node.result(1) : nullptr;
  attention.queries = attention.q->shape()[2];
  attention.keys = attention.k->shape()[2];
  if (attention.block_table != nullptr) attention.keys *= attention.block_table->shape()[1];
  attention.head = attention.q->shape()[3];
  attention.value_head = attention.v->shape()[3];
  attention.key_heads = attention.k->shape()[1];
  attention.heads_per_group = floor_div(attention.q->shape()[1], attention.key_heads);
  attention.scale = attributes.real("scale", 1.0);
  attention.softcap = attributes.real("softcap", 0.0);
  attention.zero_nan_rows = attributes.integer("zero_nan_rows", 0) != 0;
  attention.causal = attributes.text("causal", "none");
  attention.window_left = attributes.integer("window_left", -1);
  attention.window_right = attributes.integer("window_right", -1);
  if (compute_dtype(attention.q->dtype()) != DType::F32) {
    return fail("attention in f64 is run by a call");
  }
  return attention;
}

AttentionScores::Position AttentionScores::position(Expr row) {
  if (task_.head != kNoExpr) return {task_.head, row};
  const Dim& heads = attention_.heads_per_group;
  const Expr head = math_.add(math_.mul(task_.key_head, heads), math_.mod(row, heads));
  math_.set_bound(head, attention_.q->shape()[1]);
  return {head, math_.div(row, heads)};
}

Expected<Expr> AttentionScores::query_element(Expr row, Expr d) {
  Expr inside = exprs_.binary(ExprKind::Lt, row, math_.size(task_.rows));
  if (!math_.below(d, attention_.head)) {
    const Expr in_head = exprs_.binary(ExprKind::Lt, d, math_.size(attention_.head));
    inside = exprs_.binary(ExprKind::And, inside, in_head);
  }
  const Position at = position(row);
  OPWELD_TRY(const Expr value, lowering_.elements().element_where(
                                   inside, attention_.q, Index{task_.batch, at.head, at.query, d}));
  return exprs_.select(inside, value, exprs_.constant(0, DType::F32));
}

Expected<Expr> AttentionScores::mask(Position at, Expr inside, Expr key) {
  const Value* mask = attention_.mask;
  const Index index =
      lowering_.elements().broadcast_index(mask, Index{task_.batch, at.head, at.query, key});
  // One value for all rows is one load; it must not depend on which of them there are.
  const std::size_t rank = mask->shape().size();
  const bool same_queries = rank < 2 || mask->shape()[rank - 2] == Dim(1);
  const bool same_heads = task_.head != kNoExpr || rank < 3 || mask->shape()[rank - 3] == Dim(1);
  if (same_queries && same_heads) return lowering_.elements().element(mask, index);
  return lowering_.elements().element_where(inside, mask, index);
}

Expected<Expr> AttentionScores::slope(Position at, Expr inside) {
  const Index index{lowering_.elements().broadcast_index(attention_.slopes, Index{at.head})};
  OPWELD_TRY(const Expr element,
             task_.head != kNoExpr
                 ? lowering_.elements().element(attention_.slopes, index)
                 : lowering_.elements().element_where(inside, attention_.slopes, index));
  return exprs_.convert(element, DType::F32);
}

Expected<Expr> AttentionScores::score(Expr product, Expr row, Expr key) {
  const auto number = [&](double value) { return exprs_.constant(value, DType::F32); };
  const Position at = position(row);
  Expr score = exprs_.binary(ExprKind::Mul, product, number(attention_.scale));
  if (attention_.softcap != 0) {
    const Expr ratio = exprs_.binary(ExprKind::Div, score, number(attention_.softcap));
    score = exprs_.binary(ExprKind::Mul, exprs_.unary(ExprKind::Tanh, ratio),
                          number(attention_.softcap));
  }
  const Expr inside = exprs_.binary(ExprKind::Lt, row, math_.size(task_.rows));
  const Expr center = math_.add(at.query, task_.diagonal);
  if (attention_.slopes != nullptr) {
    OPWELD_TRY(const Expr factor, slope(at, inside));
    const Expr ahead = exprs_.convert(exprs_.binary(ExprKind::Sub, key, center), DType::F32);
    score = exprs_.binary(ExprKind::Add, score, exprs_.binary(ExprKind::Mul, factor, ahead));
  }
  Expr visible = kNoExpr;
  const auto require = [&](Expr condition) {
    visible = visible == kNoExpr ? condition : exprs_.binary(ExprKind::And, visible, condition);
  };
  if (attention_.mask != nullptr) {
    OPWELD_TRY(const Expr element, mask(at, inside, key));
    if (attention_.mask->dtype() == DType::Bool) {
      require(element);
    } else {
      const Expr added = exprs_.convert(element, DType::F32);
      require(exprs_.binary(ExprKind::Ne, added, number(kMinusInfinity)));
      score = exprs_.binary(ExprKind::Add, score, added);
    }
  }
  if (attention_.causal != "none") require(exprs_.binary(ExprKind::Le, key, center));
  if (attention_.window_left >= 0) {
    const Expr first = math_.sub(center, math_.constant(attention_.window_left));
    require(exprs_.binary(ExprKind::Le, first, key));
  }
  if (attention_.window_right >= 0) {
    const Expr last = math_.add(center, math_.constant(attention_.window_right));
    require(exprs_.binary(ExprKind::Le, key, last));
  }
  if (visible == kNoExpr) return score;
  return exprs_.select(visible, score, number(kMinusInfinity));
}

KeyRange AttentionScores::visible_keys() {
  // Queries of one head are a range; those of several are taken to be all.
  const bool one_head = task_.head != kNoExpr;
  const Expr first_query = one_head ? task_.row0 : math_.constant(0);
  const Expr end_query =
      one_head ? program_.add(task_.row0, task_.row_count) : math_.size(task_.queries);
  const Expr diagonal = task_.diagonal;
  KeyRange range{task_.first_key, task_.end_key};
  const auto up_to = [&](Expr end) { range.end = exprs_.binary(ExprKind::Min, range.end, end); };
  if (attention_.causal != "none") up_to(program_.add(end_query, diagonal));
  if (attention_.window_right >= 0) {
    up_to(program_.add(program_.add(end_query, diagonal), attention_.window_right));
  }
  if (attention_.window_left >= 0) {
    const Expr first = program_.sub(program_.add(first_query, diagonal), attention_.window_left);
    range.first = exprs_.binary(ExprKind::Max, range.first, first);
  }
  return range;
}

}  // namespace opweld::tile
