// What becomes of the sums of a tile: the epilogue, and where its results go.
#include <algorithm>

#include "tile/schedules/contract_task.h"

namespace opweld::tile {

Status ContractTask::define_products(SumAt sum_at, Expr i, Expr j, const std::vector<Index>& places,
                                     Expr inside) {
  std::vector<Expr> products;
  for (std::size_t part = 0; part < places.size(); ++part) {
    const Expr column = math_.add(j, math_.constant(static_cast<std::int64_t>(part) * tile_width_));
    Expr product = program_.load(sum_at(i, column));
    if (contraction_.bias != nullptr) {
      const Index place = {place_.batch.front(), places[part].back()};
      OPWELD_TRY(const Expr bias,
                 inside == kNoExpr
                     ? lowering_.elements().element(contraction_.bias, place)
                     : lowering_.elements().element_where(inside, contraction_.bias, place));
      product = program_.exprs().binary(ExprKind::Add, product, bias);
    }
    if (lowering_.options().strict) {
      product = program_.exprs().store(product, contraction_.result->dtype());
    }
    products.push_back(product);
  }
  lowering_.elements().define(contraction_.result, [=](std::span<const Expr> asked) {
    for (std::size_t part = 0; part < places.size(); ++part) {
      const Index& place = places[part];
      if (std::equal(asked.begin(), asked.end(), place.begin(), place.end())) return products[part];
    }
    return kNoExpr;
  });
  return {};
}

Status ContractTask::store_tile(VisitTile visit, SumAt sum_at, Expr row, Expr panel) {
  if (contraction_.head == 0) {
    return visit([&](Expr i, Expr j) { return store_results(sum_at, i, j, row, panel); });
  }
  if (!contraction_.outputs.empty()) {
    OPWELD_CHECK(
        visit([&](Expr i, Expr j) { return store_heads(sum_at, i, j, row, panel, nullptr); }));
  }
  ExprPool& exprs = program_.exprs();
  const Expr column = math_.mul(math_.add(place_.column0, panel), Dim(contraction_.parts));
  for (const HeadSegment& segment : contraction_.segments) {
    const auto store = [&] {
      return visit([&](Expr i, Expr j) { return store_heads(sum_at, i, j, row, panel, &segment); });
    };
    if (segment.has_all_columns()) {
      OPWELD_CHECK(store());
      continue;
    }
    const Expr begun = exprs.binary(ExprKind::Le, math_.size(segment.first()), column);
    const Expr not_ended =
        exprs.binary(ExprKind::Lt, column, math_.size(segment.first() + segment.columns()));
    Status status;
    program_.when(exprs.binary(ExprKind::And, begun, not_ended), [&] {
      const ElementBuilder::Scope scope(lowering_.elements());
      status = store();
    });
    OPWELD_CHECK(status);
  }
  return {};
}

Index ContractTask::row_index(Expr m) {
  const Expr zero = math_.constant(0);
  Index index = contraction_.merges_rows
                    ? merged_index(math_, contraction_.result->shape(), m, zero)
                    : operand_index(contraction_.result, m, zero);
  for (std::size_t axis = 0; axis + 1 < index.size(); ++axis) {
    if (contraction_.result->shape()[axis] == Dim(1)) index[axis] = zero;
  }
  return index;
}

Status ContractTask::store_results(SumAt sum_at, Expr i, Expr j, Expr row, Expr panel) {
  const IndexMath::Scope bounds(math_);
  const Expr m = math_.add(place_.row0, math_.add(row, i));
  math_.set_bound(m, contraction_.rows);
  Expr n = math_.add(place_.column0, math_.add(panel, j));
  math_.set_bound(n, contraction_.columns);
  const bool whole_panels = contraction_.columns.divisible_by(tile_width_);
  const Expr inside =
      whole_panels ? kNoExpr
                   : program_.exprs().binary(ExprKind::Lt, n, math_.size(contraction_.columns));
  if (contraction_.columns == Dim(1)) n = math_.constant(0);
  Index index = row_index(m);
  index.back() = n;
  std::vector<Index> places;
  for (int part = 0; part < contraction_.parts; ++part) {
    places.push_back(index);
    places.back().back() = math_.add(n, math_.size(contraction_.columns * part));
  }
  OPWELD_CHECK(define_products(sum_at, i, j, places, inside));
  if (form_.held != nullptr) form_.held->at_row(m, math_.add(row, i));
  for (const DomainOutput& output : contraction_.outputs) {
    OPWELD_CHECK(form_.store(output, {index, n, inside}));
  }
  return {};
}

Status ContractTask::store_heads(SumAt sum_at, Expr i, Expr j, Expr row, Expr panel,
                                 const HeadSegment* segment) {
  const IndexMath::Scope bounds(math_);
  const Expr m = math_.add(place_.row0, math_.add(row, i));
  math_.set_bound(m, contraction_.rows);
  const Dim half = contraction_.head / contraction_.parts;
  const Expr first = math_.add(place_.column0, panel);
  Expr head = math_.div(first, half);
  const Expr within = math_.add(math_.mod(first, half), j);
  math_.set_bound(within, half);
  Dim heads = floor_div(contraction_.columns, half);
  if (segment != nullptr) {
    heads = floor_div(segment->columns(), Dim(contraction_.head));
    head = math_.sub(head, math_.size(floor_div(segment->first(), Dim(contraction_.head))));
  }
  if (heads == Dim(1)) head = math_.constant(0);
  math_.set_bound(head, heads);
  std::vector<Index> places;  // of the products in the result
  std::vector<Index> stored;  // of the elements in what is stored
  for (int part = 0; part < contraction_.parts; ++part) {
    const Expr in_head = math_.add(within, math_.size(half * part));
    if (part > 0) math_.set_bound(in_head, Dim(contraction_.head));
    Index index = row_index(m);
    index.back() = math_.add(math_.mul(head, Dim(contraction_.head)), in_head);
    if (segment != nullptr) {
      index = index_behind(math_, *segment, index, index.back());
      places.push_back(index_before(lowering_.elements(), *segment, index));
    } else {
      places.push_back(index);
    }
    stored.push_back(std::move(index));
  }
  OPWELD_CHECK(define_products(sum_at, i, j, places, kNoExpr));
  if (form_.held != nullptr) form_.held->at_row(m, math_.add(row, i));
  for (const DomainOutput& output : segment != nullptr ? segment->outputs : contraction_.outputs) {
    for (const Index& index : stored) {
      OPWELD_CHECK(form_.store(output, {index, index.back(), kNoExpr}));
    }
  }
  return {};
}

}  // namespace opweld::tile
