// Where a task of the `attention` schedule finds its keys: side by side, or, with a block table, in
// the pages of a cache (see ops/block_table.h).
//
// Pages are looked up once for each block of keys that the task goes over, before any of it is
// read: every id is checked then, and the inner loops find a key's page and its row in the page on
// chip.
#include "ops/block_table.h"
#include "tile/schedules/attention_task.h"

namespace opweld::tile {

void AttentionKeys::make_buffers(std::int64_t block) {
  if (!paged()) return;
  block_ = block;
  pages_ = program_.buffer("page", DType::I64, {block}, Buffer::Space::Cache);
  rows_ = program_.buffer("row", DType::I64, {block}, Buffer::Space::Cache);
}

Status AttentionKeys::find(Expr key0, Expr count, const KeyRange& visible) {
  if (!paged()) return {};
  const Dim& page_size = attention_.k->shape()[2];
  // Keys of the block that no row sees may lie in pages that no longer exist. They are found in the
  // nearest page of one that is seen.
  const Expr first_seen = math_.div(visible.first, page_size);
  const Expr last_seen = math_.div(program_.sub(visible.end, 1), page_size);
  return each_entry(key0, count, [&](Expr entry, Expr at, Expr run) -> Status {
    const Expr seen = exprs_.binary(ExprKind::Min, entry, last_seen);
    OPWELD_TRY(const Expr page, page_of(exprs_.binary(ExprKind::Max, seen, first_seen)));
    const Expr start =
        program_.map(math_.sub(math_.add(key0, at), math_.mul(entry, page_size)), "start");
    return lowering_.vector("t", run, Dim(block_), 1, [&](Expr t) -> Status {
      const Expr place = math_.add(at, t);
      program_.store(program_.at(pages_, {place}), page);
      program_.store(program_.at(rows_, {place}), math_.add(start, t));
      return {};
    });
  });
}

Status AttentionKeys::each_run(Expr key0, Expr count, const Run& body) {
  return each_entry(key0, count, [&](Expr, Expr at, Expr run) { return body(at, run); });
}

Status AttentionKeys::each_entry(Expr key0, Expr count,
                                 const std::function<Status(Expr entry, Expr at, Expr run)>& body) {
  const Dim& page_size = attention_.k->shape()[2];
  const Expr end_key = program_.add(key0, count);
  const Expr first = math_.div(key0, page_size);
  const Expr last = math_.div(program_.sub(end_key, 1), page_size);
  const Expr entries = program_.add(program_.sub(last, first), 1);
  const Dim most = ceil_div(Dim(block_), page_size) + 1;
  return lowering_.serial("p", entries, most, [&](Expr step) {
    const Expr entry = program_.map(program_.add(first, step), "entry");
    const Expr start = math_.mul(entry, page_size);
    const Expr from = exprs_.binary(ExprKind::Max, start, key0);
    const Expr to = program_.min(math_.add(start, math_.size(page_size)), end_key);
    const Expr at = program_.map(program_.sub(from, key0), "at");
    return body(entry, at, program_.map(program_.sub(to, from), "run"));
  });
}

Expected<Expr> AttentionKeys::page_of(Expr entry) {
  const Expr kept = program_.map(entry, "seen");
  math_.set_bound(kept, attention_.block_table->shape()[1]);
  OPWELD_TRY(const Expr id,
             lowering_.elements().element(attention_.block_table, Index{task_.batch, kept}));
  const Expr page = program_.map(exprs_.convert(id, DType::I64), "block");
  const Expr pages = math_.size(attention_.k->shape()[0]);
  const Expr exists =
      exprs_.binary(ExprKind::And, exprs_.binary(ExprKind::Le, math_.constant(0), page),
                    exprs_.binary(ExprKind::Lt, page, pages));
  program_.check(
      exists, fmt::format("attention '{}': {}", attention_.node->display_name(), kBlockOutOfRange),
      {{"sequence", task_.batch}, {"entry", kept}, {"block", page}, {"blocks", pages}});
  return page;
}

Index AttentionKeys::at(Expr key0, Expr t) {
  if (!paged()) {
    const Expr key = math_.add(key0, t);
    math_.set_bound(key, attention_.keys);
    return {task_.batch, task_.key_head, key};
  }
  const Expr page = program_.load(program_.at(pages_, {t}), kNoExpr, "page");
  const Expr row = program_.load(program_.at(rows_, {t}), kNoExpr, "row");
  math_.set_bound(page, attention_.k->shape()[0]);
  math_.set_bound(row, attention_.k->shape()[2]);
  return {page, task_.key_head, row};
}

}  // namespace opweld::tile
