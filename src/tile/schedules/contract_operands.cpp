// The operands of a task's micro-kernels: where they lie, and packing what does not lie as they
// read it.

#include "tile/schedules/contract_task.h"

namespace opweld::tile {

namespace {

// A step of depth fetches so much or a multiple of it: four of them a cache line.
constexpr std::int64_t kAheadBytes = 16;

}  // namespace

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
    // The rows of a block of depth are packed together.
    const Expr within = math_.sub(depth0, block0_);
    const Expr at = math_.add(math_.mul(row, Dim(packed_row_stride())), within);
    return {program_.at_offset(*packed_rows_, at), math_.constant(packed_row_stride()),
            math_.constant(1)};
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
  return {.start = reads_wide_panel_
                       ? program_.at_offset(*wide_panel_, math_.constant(0))
                       : program_.at_offset(*packed_weights_, panel_at(panel, depth0)),
          .depth_stride = math_.size(width),
          .ahead = fetched_ahead(rows, row, panel, depth0, depth, last)};
}

std::optional<Dot::Ahead> ContractTask::fetched_ahead(int rows, Expr row, Expr panel, Expr depth0,
                                                      Expr depth, bool last) {
  // A single row reads weights as fast as they come.
  if (rows == 1) return std::nullopt;
  const std::int64_t width = blocking_.tile_columns;
  const std::int64_t unit =
      std::max<std::int64_t>(1, kAheadBytes / byte_size(contraction_.weights->dtype()));
  const auto rate = [&](std::int64_t of_rows) {
    return static_cast<int>((width * rows + of_rows * unit - 1) / (of_rows * unit) * unit);
  };
  ExprPool& exprs = program_.exprs();
  const auto divide = [&](Expr value, Expr by) { return exprs.binary(ExprKind::Div, value, by); };
  Dot::Ahead ahead;
  Expr all = kNoExpr;
  if (const auto known = groups_ ? std::nullopt : form_.known_rows) {
    all = math_.constant(*known);
    ahead.rates = {rate(*known)};
    ahead.stride = math_.constant(ahead.rates.front());
  } else {
    all = exprs.binary(ExprKind::Max, run_rows_, math_.constant(1));
    // The share, in units and rounded up.
    const Expr unit_of_all = program_.mul(all, unit);
    const Expr rounding = program_.sub(unit_of_all, 1);
    ahead.stride = program_.mul(divide(program_.add(rounding, width * rows), unit_of_all), unit);
    // Few rows have few tiles, each of which fetches a large share.
    const std::int64_t tile = blocking_.tile_rows;
    for (const std::int64_t few :
         {rows == tile ? 4 * tile : 2 * tile, 2 * tile, std::int64_t{rows}}) {
      if (ahead.rates.empty() || rate(few) > ahead.rates.back()) ahead.rates.push_back(rate(few));
    }
  }
  const Expr before = divide(program_.mul(row, width), all);
  const Expr next = math_.add(panel_after(panel, depth0, last), program_.mul(before, depth));
  ahead.start = program_.at_offset(*packed_weights_, next);
  return ahead;
}

// Panels lie one after the other, each depth x width: column n of the matrix, a multiple of the
// width, starts at n * depth.
Expr ContractTask::panel_at(Expr column, Expr depth_start) {
  const int width = blocking_.tile_columns;
  const Shape& shape = contraction_.b->shape();
  const Shape batch(shape.begin(), shape.end() - 2);
  const Dim panels = ceil_div(contraction_.columns, Dim(tile_width_));
  const Dim matrix = panels * width * depth_;
  std::vector<Dim> strides = row_major_strides(batch);
  for (Dim& stride : strides) stride *= matrix;
  const Expr at = math_.mul(math_.add(place_.column0, column), depth_ * contraction_.parts);
  return math_.add(math_.add(batch_offset(batch, strides), at), math_.mul(depth_start, width));
}

Expr ContractTask::panel_after(Expr panel, Expr depth0, bool last) {
  ExprPool& exprs = program_.exprs();
  const Expr beside = math_.add(panel, math_.constant(tile_width_));
  // Behind the last panel other rows may meet their weights in the same block of depth first.
  if (!partial_ || groups_) return panel_at(beside, depth0);
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

// A tile of the matrix unit is read from sixteen rows at once: a line between them keeps rows of a
// power of two out of each other's sets of the cache.
std::int64_t ContractTask::packed_row_stride() const {
  return form_.on_matrix_unit ? blocking_.depth + kMatrixDepth : blocking_.depth;
}

Status ContractTask::pack_rows(Expr depth0, Expr depth) {
  if (!packed_rows_) {
    const DType dtype = form_.on_matrix_unit ? DType::BF16 : compute_;
    packed_rows_ =
        program_.buffer("a", dtype, {blocking_.rows, packed_row_stride()}, Buffer::Space::Cache);
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

bool ContractTask::has_prologue() const {
  return packed_weights_ && !form_.on_matrix_unit && contraction_.weights->dtype() != compute_;
}

Status ContractTask::widen_panel(Expr panel, Expr depth0, Expr depth) {
  const int width = blocking_.tile_columns;
  if (!wide_panel_) {
    wide_panel_ = program_.buffer("w", compute_, {blocking_.depth, width}, Buffer::Space::Cache);
  }
  const Expr start = panel_at(panel, depth0);
  const int vectors = tile_width_ / lowering_.lanes();
  ElementBuilder& elements = lowering_.elements();
  return lowering_.serial("k", depth, Dim(blocking_.depth), [&](Expr k) -> Status {
    for (int part = 0; part < contraction_.parts; ++part) {
      OPWELD_CHECK(lowering_.vector("j", Dim(tile_width_), vectors, [&](Expr j) -> Status {
        const Expr column = math_.add(j, math_.constant(std::int64_t{part} * tile_width_));
        const Expr within = math_.add(math_.mul(k, Dim(width)), column);
        const Expr stored =
            program_.load(program_.at_offset(*packed_weights_, math_.add(start, within)));
        elements.define(contraction_.weights, [=](std::span<const Expr>) { return stored; });
        const Expr row = math_.add(depth0, k);
        OPWELD_TRY(const Expr value,
                   elements.element(contraction_.b, operand_index(contraction_.b, row, column)));
        elements.undefine(contraction_.weights);
        program_.store(program_.at_offset(*wide_panel_, within), value);
        return {};
      }));
    }
    return {};
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

}  // namespace opweld::tile
