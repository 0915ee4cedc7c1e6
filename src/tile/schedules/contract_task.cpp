#include "tile/schedules/contract_task.h"

#include <algorithm>

#include "ops/op.h"

namespace opweld::tile {

namespace {

// With up to so many register tiles of rows, a matmul waits for its weights.
constexpr int kFewTiles = 4;

// Whether the value's elements are those of inputs and constants, at other places.
bool is_moved_only(const Value* value) {
  const Node* const producer = value->producer();
  if (producer == nullptr || producer->op() == "constant") return true;
  const FusionTrait trait = op_def(*producer).trait;
  if (trait != FusionTrait::View && trait != FusionTrait::Broadcast) return false;
  for (int i = 0; i < producer->num_operands(); ++i) {
    const Value* const operand = producer->operand(i);
    if (operand->dtype() == value->dtype() && !is_moved_only(operand)) return false;
  }
  return true;
}

}  // namespace

Index merged_index(IndexMath& math, const Shape& shape, Expr row, Expr last) {
  const Shape leading(shape.begin(), shape.end() - 1);
  Index index = math.through_reshape(std::vector<Expr>{row}, leading, {num_elements(leading)});
  index.push_back(last);
  return index;
}

bool on_matrix_unit(const Contraction& contraction, const LowerOptions& options, bool held) {
  const auto is_bf16 = [](const Value* value) { return value->dtype() == DType::BF16; };
  return options.target->has_amx_bf16 && !options.strict && contraction.weights != nullptr &&
         is_bf16(contraction.a) && is_bf16(contraction.b) && (held || is_moved_only(contraction.a));
}

Dim multiplied_depth(const Contraction& contraction, bool on_matrix_unit) {
  return on_matrix_unit ? round_up(contraction.depth, kMatrixDepth) : contraction.depth;
}

void request_packed_weights(GroupLowering& lowering, const Contraction& contraction,
                            bool on_matrix_unit) {
  if (contraction.weights == nullptr) return;
  const DType compute = compute_dtype(contraction.result->dtype());
  const int columns = on_matrix_unit
                          ? kMatrixColumns
                          : packed_columns(*lowering.options().target, compute, contraction.columns,
                                           contraction.parts, lowering.options().blocking);
  lowering.request_packed(contraction.weights, columns, contraction.parts, on_matrix_unit,
                          static_cast<int>(contraction.head));
}

Status check_heads(const Contraction& contraction, const ContractBlocking& blocking) {
  if (contraction.head % blocking.tile_columns == 0) return {};
  return fail("a head of {} columns is cut by panels of {}", contraction.head,
              blocking.tile_columns);
}

std::optional<StridedOperand> strided_rows(const GroupLowering& lowering,
                                           const Contraction& contraction, bool on_matrix_unit) {
  const DType dtype = contraction.a->dtype();
  const bool is_wide = dtype == DType::F32 || dtype == DType::F64;
  if (!is_wide && !on_matrix_unit) return std::nullopt;
  if (on_matrix_unit && !contraction.depth.divisible_by(kMatrixDepth)) return std::nullopt;
  auto operand = lowering.strided_operand(contraction.a);
  if (operand && contraction.merges_rows) {
    auto merged = operand->view.reshape({contraction.rows, contraction.depth});
    if (!merged) return std::nullopt;
    operand->view = std::move(*merged);
  }
  if (operand && on_matrix_unit && operand->view.strides.back() != Dim(1)) return std::nullopt;
  return operand;
}

ContractTask::ContractTask(GroupLowering& lowering, const Contraction& contraction, Form form)
    : lowering_(lowering),
      program_(lowering.program()),
      math_(lowering.math()),
      contraction_(contraction),
      form_(std::move(form)),
      blocking_(form_.blocking),
      compute_(compute_dtype(contraction.result->dtype())),
      packs_rows_(!form_.strided_rows && !rows_on_chip()),
      depth_(multiplied_depth(contraction, form_.on_matrix_unit)),
      tile_width_(blocking_.tile_columns / contraction.parts),
      block_width_(blocking_.columns / contraction.parts) {
  if (contraction.weights != nullptr) {
    packed_weights_ = lowering.packed_param(contraction.weights);
  }
  if (contraction.grouped) groups_.emplace(lowering, *contraction.node);
}

Status ContractTask::emit(Place place) {
  place_ = std::move(place);
  const Expr end =
      place_.end_column == kNoExpr ? math_.size(contraction_.columns) : place_.end_column;
  column_count_ = program_.min(program_.sub(end, place_.column0), block_width_);
  if (groups_) OPWELD_CHECK(groups_->emit_starts());
  const Dim blocks = ceil_div(depth_, Dim(blocking_.depth));
  const bool single_block = provably_le(depth_, Dim(blocking_.depth));
  if (!single_block) {
    partial_ =
        program_.buffer("c", compute_, {blocking_.rows, blocking_.columns}, Buffer::Space::Cache);
    if (!form_.on_matrix_unit) clear_partial();
    OPWELD_CHECK(lowering_.serial("kb", max(blocks - 1, Dim(0)), [&](Expr block) {
      const Expr start = math_.mul(block, Dim(blocking_.depth));
      return emit_block(start, math_.constant(blocking_.depth), /*last=*/false);
    }));
  }
  const Dim start = single_block ? Dim(0) : max(blocks - 1, Dim(0)) * blocking_.depth;
  return emit_block(math_.size(start), math_.size(depth_ - start), /*last=*/true);
}

void ContractTask::clear_partial() {
  program_.serial("i", blocking_.rows, [&](Expr i) {
    program_.vector("j", blocking_.columns, {.unroll = 2, .lanes = lowering_.lanes()},
                    [&](Expr j) { program_.store(program_.at(*partial_, {i, j}), zero()); });
  });
}

Status ContractTask::emit_block(Expr depth0, Expr depth, bool last) {
  if (packs_rows_) OPWELD_CHECK(pack_rows(depth0, depth));
  if (!groups_) return emit_run(math_.constant(0), place_.row_count, depth0, depth, last);
  return groups_->each_group(
      place_.row0, place_.row_count, [&](Expr group, Expr first, Expr count) {
        place_.batch = {group};
        return emit_run(math_.sub(first, place_.row0), count, depth0, depth, last);
      });
}

Status ContractTask::emit_run(Expr first, Expr count, Expr depth0, Expr depth, bool last) {
  run0_ = first;
  run_rows_ = count;
  if (!packed_weights_) OPWELD_CHECK(pack_columns(depth0, depth));
  Status status;
  program_.serial("p", column_count_, tile_width_, [&](Expr panel) {
    const ElementBuilder::Scope scope(lowering_.elements());
    status = emit_row_tiles(count, panel, depth0, depth, last);
  });
  return status;
}

Status ContractTask::emit_row_tiles(Expr count, Expr panel, Expr depth0, Expr depth, bool last) {
  if (form_.on_matrix_unit) return emit_matrix_tiles(count, panel, depth0, depth, last);
  // The row count of a task is known when one task takes all rows or all tasks take as many.
  std::optional<std::int64_t> known;
  const auto all = contraction_.rows.constant();
  if (all && *all <= blocking_.rows) {
    known = all;
  } else if (contraction_.rows.divisible_by(blocking_.rows)) {
    known = blocking_.rows;
  }
  if (groups_) known.reset();
  return each_row_tile(lowering_, count, known, blocking_.tile_rows, [&](int rows, Expr row) {
    return emit_tile(rows, row, panel, depth0, depth, last);
  });
}

Status ContractTask::emit_tile(int rows, Expr run_row, Expr panel, Expr depth0, Expr depth,
                               bool last) {
  const Expr row = math_.add(run0_, run_row);
  const auto partial_at = [&](Expr i, Expr j) {
    const Expr column = math_.add(math_.mul(panel, Dim(contraction_.parts)), j);
    return program_.at(*partial_, {program_.add(row, i), column});
  };
  OPWELD_TRY(const MemoryRef tile,
             emit_register_dot(lowering_, compute_, rows, blocking_.tile_columns,
                               left_operand(row, depth0),
                               right_operand(rows, run_row, panel, depth0, depth, last), depth,
                               [&](Expr i, Expr j) -> Expected<Expr> {
                                 return partial_ ? program_.load(partial_at(i, j)) : zero();
                               }));
  if (last) {
    const auto sum_at = [&](Expr i, Expr j) { return program_.at(tile, {i, j}); };
    const auto visit = [&](const TileVectorBody& body) {
      return each_tile_vector(lowering_, compute_, rows, tile_width_, body);
    };
    return store_tile(visit, sum_at, row, panel);
  }
  return each_tile_vector(
      lowering_, compute_, rows, blocking_.tile_columns, [&](Expr i, Expr j) -> Status {
        program_.store(partial_at(i, j), program_.load(program_.at(tile, {i, j})));
        return {};
      });
}

Status ContractTask::emit_matrix_tiles(Expr count, Expr panel, Expr depth0, Expr depth, bool last) {
  return lowering_.serial("i", count, Dim(blocking_.rows), blocking_.tile_rows, [&](Expr run_row) {
    const Expr rest = program_.sub(count, run_row);
    return emit_matrix_tile(program_.min(rest, blocking_.tile_rows), math_.add(run0_, run_row),
                            panel, depth0, depth, last);
  });
}

Status ContractTask::emit_matrix_tile(Expr rows, Expr row, Expr panel, Expr depth0, Expr depth,
                                      bool last) {
  const int width = blocking_.tile_columns;
  const MemoryRef sums = partial_ ? *partial_ : sums_of_tile();
  Expr start = math_.constant(0);
  if (partial_) {
    // Tiles of the same rows lie one after the other.
    const Expr column = math_.mul(panel, Dim(contraction_.parts));
    start = math_.add(math_.mul(row, Dim(blocking_.columns)), program_.mul(column, rows));
  }
  const DotOperand a = left_operand(row, depth0);
  MatrixDot dot;
  dot.accumulator = program_.at_offset(sums, start);
  dot.accumulator_row_stride = math_.constant(width);
  dot.from_zero = program_.exprs().binary(ExprKind::Eq, depth0, math_.constant(0));
  dot.a = a.start;
  dot.a_row_stride = a.row_stride;
  // No register tile, so nothing is fetched ahead.
  dot.b = right_operand(/*rows=*/0, row, panel, depth0, depth, last).start;
  dot.depth = depth;
  dot.row_count = rows;
  program_.matrix_dot(std::move(dot));
  if (!last) return {};
  const auto sum_at = [&](Expr i, Expr j) {
    return program_.at_offset(sums, math_.add(start, math_.add(math_.mul(i, Dim(width)), j)));
  };
  const auto visit = [&](const TileVectorBody& body) {
    return lowering_.serial("r", rows, Dim(blocking_.tile_rows), [&](Expr i) {
      Status status;
      const ProgramBuilder::VectorOptions options{.unroll = tile_width_ / lowering_.lanes(),
                                                  .lanes = lowering_.lanes()};
      program_.vector("j", tile_width_, options, [&](Expr j) {
        const ElementBuilder::Scope scope(lowering_.elements());
        status = body(i, j);
      });
      return status;
    });
  };
  return store_tile(visit, sum_at, row, panel);
}

MemoryRef ContractTask::sums_of_tile() {
  if (!sums_) {
    sums_ = program_.buffer("c", compute_, {blocking_.tile_rows, blocking_.tile_columns},
                            Buffer::Space::Cache);
  }
  return *sums_;
}

Expr ContractTask::batch_offset(const Shape& batch, std::span<const Dim> strides) {
  Expr offset = math_.constant(0);
  for (std::size_t axis = 0; axis < batch.size(); ++axis) {
    if (batch[axis] == Dim(1)) continue;
    const Expr at = place_.batch[place_.batch.size() - batch.size() + axis];
    offset = math_.add(offset, math_.mul(at, strides[axis]));
  }
  return offset;
}

std::optional<HeldRows> ContractTask::rows_on_chip() const {
  if (form_.held == nullptr || !form_.held->has(contraction_.a)) return std::nullopt;
  const DType dtype = contraction_.a->dtype();
  const bool readable = form_.on_matrix_unit ? contraction_.depth.divisible_by(kMatrixDepth)
                                             : dtype == DType::F32 || dtype == DType::F64;
  return readable ? std::optional(form_.held->rows_of(contraction_.a)) : std::nullopt;
}

DotOperand ContractTask::left_operand(Expr row, Expr depth0) {
  if (const auto held = rows_on_chip()) {
    const auto& [memory, stride] = *held;
    return {program_.at_offset(memory, math_.add(math_.mul(row, stride), depth0)),
            math_.size(stride), math_.constant(1)};
  }
  if (packs_rows_) {
    return {program_.at_offset(*packed_rows_, math_.mul(row, Dim(blocking_.depth))),
            math_.constant(blocking_.depth), math_.constant(1)};
  }
  const StridedView& view = form_.strided_rows->view;
  const std::size_t batch_axes = view.shape.size() - 2;
  const Dim row_stride = view.strides[batch_axes];
  const Dim depth_stride = view.strides[batch_axes + 1];
  const Shape batch(view.shape.begin(), view.shape.end() - 2);
  Expr offset = math_.add(math_.size(view.offset), batch_offset(batch, view.strides));
  offset = math_.add(offset, math_.mul(math_.add(place_.row0, row), row_stride));
  offset = math_.add(offset, math_.mul(depth0, depth_stride));
  return {program_.at_offset(form_.strided_rows->param, offset), math_.size(row_stride),
          math_.size(depth_stride)};
}

DotOperand ContractTask::right_operand(int rows, Expr row, Expr panel, Expr depth0, Expr depth,
                                       bool last) {
  const int width = blocking_.tile_columns;
  if (!packed_weights_) {
    return {program_.at_offset(*packed_columns_, math_.mul(panel, Dim(blocking_.depth))), kNoExpr,
            math_.size(width)};
  }
  // Panels lie one after the other, each depth x width: column n of the matrix, a multiple of the
  // width, starts at n * depth.
  const Shape& shape = contraction_.b->shape();
  const Shape batch(shape.begin(), shape.end() - 2);
  const Dim panels = ceil_div(contraction_.columns, Dim(tile_width_));
  const Dim matrix = panels * width * depth_;
  std::vector<Dim> strides = row_major_strides(batch);
  for (Dim& stride : strides) stride *= matrix;
  const Expr matrix_offset = batch_offset(batch, strides);
  const auto panel_at = [&](Expr column, Expr depth_start) {
    const Expr at = math_.mul(math_.add(place_.column0, column), depth_ * contraction_.parts);
    return math_.add(math_.add(matrix_offset, at), math_.mul(depth_start, width));
  };
  DotOperand operand{program_.at_offset(*packed_weights_, panel_at(panel, depth0)), kNoExpr,
                     math_.size(width)};
  if (rows == blocking_.tile_rows) {
    const Expr tile = math_.div(row, Dim(rows));
    const Expr fetched = program_.mul(math_.mul(tile, Dim(blocking_.ahead_stride)), depth);
    const Expr next = panel_after(panel, depth0, last, panel_at);
    operand.ahead = {.start = program_.at_offset(*packed_weights_, math_.add(next, fetched)),
                     .stride = blocking_.ahead_stride};
    // Few rows have too few tiles for that: their first one fetches the whole panel.
    const bool may_be_few = groups_ || !contraction_.rows.is_constant();
    if (may_be_few && blocking_.ahead_stride < width) {
      ExprPool& exprs = program_.exprs();
      const Expr few = exprs.binary(ExprKind::Le, run_rows_, math_.constant(kFewTiles * rows));
      const Expr first = exprs.binary(ExprKind::Eq, row, math_.constant(0));
      operand.ahead->eager = exprs.binary(ExprKind::And, first, few);
      operand.ahead->eager_stride = width;
    }
  }
  return operand;
}

Expr ContractTask::panel_after(Expr panel, Expr depth0, bool last,
                               FunctionRef<Expr(Expr column, Expr depth_start)> panel_at) {
  ExprPool& exprs = program_.exprs();
  const Expr beside = math_.add(panel, math_.constant(tile_width_));
  const bool all_rows = provably_le(contraction_.rows, Dim(blocking_.rows));
  if (!partial_ || !all_rows) return panel_at(beside, depth0);
  const Expr start = math_.constant(0);
  const Expr behind = last ? panel_at(beside, start)
                           : panel_at(start, math_.add(depth0, math_.constant(blocking_.depth)));
  return exprs.select(exprs.binary(ExprKind::Le, column_count_, beside), behind,
                      panel_at(beside, depth0));
}

Index ContractTask::operand_index(const Value* operand, Expr first, Expr second) {
  Index index;
  const auto batch_axes = static_cast<std::size_t>(operand->rank()) - 2;
  for (std::size_t axis = 0; axis < batch_axes; ++axis) {
    const Expr at = place_.batch[place_.batch.size() - batch_axes + axis];
    index.push_back(operand->shape()[axis] == Dim(1) ? math_.constant(0) : at);
  }
  index.push_back(first);
  index.push_back(second);
  return index;
}

Status ContractTask::pack_rows(Expr depth0, Expr depth) {
  if (!packed_rows_) {
    const DType dtype = form_.on_matrix_unit ? DType::BF16 : compute_;
    packed_rows_ =
        program_.buffer("a", dtype, {blocking_.rows, blocking_.depth}, Buffer::Space::Cache);
  }
  // Zeros pad it where the weights are padded.
  const bool padded = !contraction_.depth.divisible_by(kMatrixDepth) && form_.on_matrix_unit;
  ExprPool& exprs = program_.exprs();
  return lowering_.serial("i", place_.row_count, Dim(blocking_.rows), [&](Expr i) -> Status {
    const Expr row = math_.add(place_.row0, i);
    math_.set_bound(row, contraction_.rows);
    if (form_.held != nullptr) form_.held->at_row(row, i);
    return lowering_.vector("k", depth, Dim(blocking_.depth), 1, [&](Expr k) -> Status {
      const Expr at = math_.add(depth0, k);
      math_.set_bound(at, contraction_.depth);
      const Index index = contraction_.merges_rows
                              ? merged_index(math_, contraction_.a->shape(), row, at)
                              : operand_index(contraction_.a, row, at);
      const Access to = program_.at(*packed_rows_, {i, k});
      if (!padded) {
        OPWELD_TRY(const Expr value, lowering_.elements().element(contraction_.a, index));
        program_.store(to, value);
        return {};
      }
      const Expr inside = exprs.binary(ExprKind::Lt, at, math_.size(contraction_.depth));
      OPWELD_TRY(const Expr value,
                 lowering_.elements().element_where(inside, contraction_.a, index));
      program_.store(to, exprs.select(inside, value, zero()));
      return {};
    });
  });
}

Status ContractTask::pack_columns(Expr depth0, Expr depth) {
  const std::int64_t width = blocking_.tile_columns;
  if (!packed_columns_) {
    packed_columns_ = program_.buffer(
        "b", compute_, {blocking_.columns / width, blocking_.depth, width}, Buffer::Space::Cache);
  }
  ExprPool& exprs = program_.exprs();
  Status status;
  program_.serial("p", column_count_, width, [&](Expr panel) {
    const ElementBuilder::Scope scope(lowering_.elements());
    status = lowering_.serial("k", depth, Dim(blocking_.depth), [&](Expr k) -> Status {
      const Expr row = math_.add(depth0, k);
      math_.set_bound(row, contraction_.depth);
      return lowering_.vector("j", Dim(width), 1, [&](Expr j) -> Status {
        const Expr column = math_.add(math_.add(place_.column0, panel), j);
        const Expr inside = exprs.binary(ExprKind::Lt, column, math_.size(contraction_.columns));
        OPWELD_TRY(const Expr value,
                   lowering_.elements().element_where(inside, contraction_.b,
                                                      operand_index(contraction_.b, row, column)));
        const Expr offset = math_.add(math_.mul(panel, Dim(blocking_.depth)),
                                      math_.add(math_.mul(k, Dim(width)), j));
        program_.store(program_.at_offset(*packed_columns_, offset),
                       exprs.select(inside, value, zero()));
        return {};
      });
    });
  });
  return status;
}

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
  const Expr m = math_.add(place_.row0, math_.add(row, i));
  math_.set_bound(m, contraction_.rows);
  const Dim half = contraction_.head / contraction_.parts;
  const Expr first = math_.add(place_.column0, panel);
  Expr head = math_.div(first, half);
  const Expr within = math_.add(math_.mod(first, half), j);
  math_.set_bound(within, half);
  // Of the whole result or of the segment: the first segment counts its heads by the same
  // expression as the whole, so each says how many there are.
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
