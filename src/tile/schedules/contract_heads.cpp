// What becomes of the sums of a tile whose columns are elements of heads.
//
// A tile takes elements as they come, of all parts, and may begin and end within a head. So its
// columns are gone through a vector at a time, so many lanes as never leave a stretch of a head:
//
//     for v in columns step lanes:                          element n0 + panel + v of each part
//       if it belongs to the segment, and to the stretch:   (where the tile may hold several)
//         for rows:  y[.., head, .., within the head] <- epilogue(c[row, v], of each part)
#include <algorithm>

#include "tile/schedules/contract_task.h"

namespace opweld::tile {

namespace {

// Runs the body under the conditions, which are equal in all lanes.
Status when_all(GroupLowering& lowering, std::span<const Expr> conditions,
                const std::function<Status()>& body) {
  if (conditions.empty()) return body();
  ProgramBuilder& program = lowering.program();
  Expr all = conditions.front();
  for (const Expr condition : conditions.subspan(1)) {
    all = program.exprs().binary(ExprKind::And, all, condition);
  }
  Status status;
  program.when(all, [&] {
    const ElementBuilder::Scope scope(lowering.elements());
    status = body();
  });
  return status;
}

}  // namespace

Status ContractTask::store_heads(const TileSums& sums, Expr row, Expr panel) {
  if (!contraction_.outputs.empty()) OPWELD_CHECK(store_segment(sums, row, panel, nullptr));
  ExprPool& exprs = program_.exprs();
  const Expr first = math_.add(place_.column0, panel);
  for (const HeadSegment& segment : contraction_.segments) {
    std::vector<Expr> conditions;
    if (!segment.has_all_columns()) {
      const Expr begin = math_.size(floor_div(segment.first(), Dim(contraction_.parts)));
      const Expr end =
          math_.size(floor_div(segment.first() + segment.columns(), Dim(contraction_.parts)));
      const Expr end_of_panel = math_.add(first, math_.constant(tile_width_));
      conditions = {exprs.binary(ExprKind::Lt, begin, end_of_panel),
                    exprs.binary(ExprKind::Lt, first, end)};
    }
    OPWELD_CHECK(
        when_all(lowering_, conditions, [&] { return store_segment(sums, row, panel, &segment); }));
  }
  return {};
}

Status ContractTask::store_segment(const TileSums& sums, Expr row, Expr panel,
                                   const HeadSegment* segment) {
  ExprPool& exprs = program_.exprs();
  const Dim parts(contraction_.parts);
  const Dim of_head = floor_div(Dim(contraction_.head), parts);
  const bool all = segment == nullptr || segment->has_all_columns();
  const Dim begin = all ? Dim(0) : floor_div(segment->first(), parts);
  const Dim end =
      all ? contraction_.columns : floor_div(segment->first() + segment->columns(), parts);
  const bool whole_panels = begin.divisible_by(tile_width_) && end.divisible_by(tile_width_);

  const auto store_vector = [&](Expr v) -> Status {
    const Expr n = math_.add(math_.add(place_.column0, panel), v);
    math_.set_bound(n, contraction_.columns);
    std::vector<Expr> conditions;
    if (!whole_panels) {
      if (begin != Dim(0)) conditions.push_back(exprs.binary(ExprKind::Le, math_.size(begin), n));
      conditions.push_back(exprs.binary(ExprKind::Lt, n, math_.size(end)));
    }
    const auto outside = conditions.size();
    const Expr in_head = math_.mod(n, of_head);
    // By a name of its own: index arithmetic would put quotient and remainder together again, and
    // no longer see that the lanes of a vector are of one head.
    const Expr head = program_.map(math_.div(n, of_head), "head");
    std::int64_t start = 0;  // of the stretch, in columns
    for (const ColumnStretch& stretch : contraction_.stretches) {
      const std::int64_t first = start / contraction_.parts;
      const std::int64_t last = (start + stretch.columns) / contraction_.parts;
      conditions.resize(outside);
      if (first != 0) {
        conditions.push_back(exprs.binary(ExprKind::Le, math_.constant(first), in_head));
      }
      if (last < *of_head.constant()) {
        conditions.push_back(exprs.binary(ExprKind::Lt, in_head, math_.constant(last)));
      }
      const HeadElements elements{
          segment, row, v, head, math_.sub(in_head, math_.constant(first)), &stretch, start};
      OPWELD_CHECK(when_all(lowering_, conditions, [&] {
        return sums.each_row([&](Expr i) { return store_head_elements(sums.at, i, elements); });
      }));
      start += stretch.columns;
    }
    return {};
  };
  Status status;
  const auto body = [&](Expr v) {
    const ElementBuilder::Scope scope(lowering_.elements());
    if (status) status = store_vector(v);
  };
  if (sums.in_registers) {
    program_.unrolled("v", tile_width_, head_lanes_, body);
  } else {
    program_.serial("v", tile_width_, head_lanes_, body);
  }
  return status;
}

bool ContractTask::are_interleaved(const HeadElements& elements, const DomainOutput& output) const {
  const bool neighbours = contraction_.parts > 1 && elements.stretch->run == 1;
  if (!neighbours || (elements.segment != nullptr && !elements.segment->head_axis)) return false;
  const std::size_t axis =
      elements.segment != nullptr ? *elements.segment->head_axis : output.view.strides.size() - 1;
  if (output.view.strides[axis] != Dim(1)) return false;
  // Along the axis that a write index moves, neighbours may lie at both ends of the cache.
  if (output.scatter == nullptr) return true;
  return output.scatter->attributes().integer("axis") + 1 !=
         static_cast<std::int64_t>(output.output->shape().size());
}

Status ContractTask::store_head_elements(SumAt sum_at, Expr tile_row,
                                         const HeadElements& elements) {
  const auto& [segment, row, column, head_of_all, within, stretch, stretch_start] = elements;
  const Expr m = math_.add(place_.row0, math_.add(row, tile_row));
  math_.set_bound(m, contraction_.rows);
  const Dim all_columns =
      segment != nullptr ? segment->columns() : contraction_.result->shape().back();
  const Dim heads = floor_div(all_columns, Dim(contraction_.head));
  const Dim first_head =
      segment != nullptr ? floor_div(segment->first(), Dim(contraction_.head)) : Dim(0);
  const Expr head =
      heads == Dim(1) ? math_.constant(0) : math_.sub(head_of_all, math_.size(first_head));

  const auto store_lanes = [&](Expr lane) -> Status {
    const ElementBuilder::Scope scope(lowering_.elements());
    const std::int64_t count = stretch->columns / contraction_.parts;
    const Expr element = count == 1 ? math_.constant(0) : math_.add(within, lane);
    math_.set_bound(element, Dim(count));
    math_.set_bound(head, heads);
    // Parts take turns a run at a time: all of each, or one element of each.
    const bool neighbours = stretch->run == 1 && count > 1;
    const Expr first_of_turn = neighbours ? math_.mul(element, Dim(contraction_.parts)) : element;
    if (neighbours) math_.set_bound(first_of_turn, Dim((count - 1) * contraction_.parts + 1));
    std::vector<Index> places;  // of the products in the result
    std::vector<Index> stored;  // of the elements in what is stored
    for (int part = 0; part < contraction_.parts; ++part) {
      const std::int64_t offset = stretch_start + std::int64_t{part} * stretch->run;
      const Expr in_head = math_.add(first_of_turn, math_.constant(offset));
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
    OPWELD_CHECK(define_products(sum_at, tile_row, math_.add(column, lane), places, kNoExpr));
    if (form_.held != nullptr) form_.held->at_row(m, math_.add(row, tile_row));
    const auto& outputs = segment != nullptr ? segment->outputs : contraction_.outputs;
    for (const DomainOutput& output : outputs) {
      if (are_interleaved(elements, output)) {
        const Expr at = stored.front().back();
        OPWELD_CHECK(form_.store(output, {stored.front(), at, kNoExpr, stored.back()}));
        continue;
      }
      for (const Index& index : stored) {
        OPWELD_CHECK(form_.store(output, {index, index.back(), kNoExpr}));
      }
    }
    return {};
  };
  if (head_lanes_ == 1) return store_lanes(math_.constant(0));
  Status status;
  program_.vector("l", head_lanes_, {.unroll = 1, .lanes = head_lanes_},
                  [&](Expr lane) { status = store_lanes(lane); });
  return status;
}

}  // namespace opweld::tile
