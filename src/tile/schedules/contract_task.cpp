#include "tile/schedules/contract_task.h"

#include <numeric>

#include "ops/op.h"

namespace opweld::tile {

namespace {

// Up to so many tiles of rows widen the weights as they read them, each for itself.
constexpr int kFewWidenedTiles = 2;

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
  // Of a single part, columns come as they are.
  lowering.request_packed(
      contraction.weights, columns, contraction.parts, on_matrix_unit,
      contraction.parts > 1 ? contraction.stretches : std::vector<ColumnStretch>());
}

std::optional<StridedOperand> strided_rows(const GroupLowering& lowering,
                                           const Contraction& contraction, bool on_matrix_unit) {
  const DType dtype = contraction.a->dtype();
  const bool is_wide = dtype == DType::F32 || dtype == DType::F64;
  if (!is_wide && !on_matrix_unit) return std::nullopt;
  if (on_matrix_unit) {
    const bool is_one_tile = provably_le(contraction.rows, Dim(kMatrixRows));
    if (!is_one_tile || !contraction.depth.divisible_by(kMatrixDepth)) return std::nullopt;
  }
  auto operand = lowering.strided_operand(contraction.a);
  if (operand && contraction.merges_rows) {
    auto merged = operand->view.reshape({contraction.rows, contraction.depth});
    if (!merged) return std::nullopt;
    operand->view = std::move(*merged);
  }
  if (operand && on_matrix_unit && operand->view.strides.back() != Dim(1)) return std::nullopt;
  return operand;
}

std::optional<std::int64_t> known_block_rows(const Contraction& contraction,
                                             const ContractBlocking& blocking) {
  // One task takes all rows, or all tasks take as many.
  const auto all = contraction.rows.constant();
  if (all && *all <= blocking.rows) return all;
  if (contraction.rows.divisible_by(blocking.rows)) return blocking.rows;
  return std::nullopt;
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
  head_lanes_ = lowering.options().target->lanes(byte_size(compute_));
  for (const ColumnStretch& stretch : contraction.stretches) {
    head_lanes_ = std::gcd(head_lanes_, stretch.columns / contraction.parts);
  }
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
  program_.serial("i", place_.row_count, [&](Expr i) {
    program_.vector("j", blocking_.columns, {.unroll = 2, .lanes = lowering_.lanes()},
                    [&](Expr j) { program_.store(program_.at(*partial_, {i, j}), zero()); });
  });
}

Status ContractTask::emit_block(Expr depth0, Expr depth, bool last) {
  block0_ = depth0;
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
    status = emit_panel(count, panel, depth0, depth, last);
  });
  return status;
}

Status ContractTask::emit_panel(Expr count, Expr panel, Expr depth0, Expr depth, bool last) {
  const auto constant = groups_ ? std::nullopt : contraction_.rows.constant();
  const std::int64_t few = std::int64_t{kFewWidenedTiles} * blocking_.tile_rows;
  const bool all_few = constant && *constant <= few;
  if (!has_prologue() || all_few) return emit_row_tiles(count, panel, depth0, depth, last);
  const auto emit_widened = [&]() -> Status {
    OPWELD_CHECK(widen_panel(panel, depth0, depth));
    reads_wide_panel_ = true;
    Status status = emit_row_tiles(count, panel, depth0, depth, last);
    reads_wide_panel_ = false;
    return status;
  };
  if (constant) return emit_widened();
  ExprPool& exprs = program_.exprs();
  Status status;
  program_.when(exprs.binary(ExprKind::Le, count, math_.constant(few)), [&] {
    const ElementBuilder::Scope scope(lowering_.elements());
    status = emit_row_tiles(count, panel, depth0, depth, last);
  });
  OPWELD_CHECK(status);
  program_.when(exprs.binary(ExprKind::Lt, math_.constant(few), count), [&] {
    const ElementBuilder::Scope scope(lowering_.elements());
    status = emit_widened();
  });
  return status;
}

Status ContractTask::emit_row_tiles(Expr count, Expr panel, Expr depth0, Expr depth, bool last) {
  if (form_.on_matrix_unit) return emit_matrix_panel(count, panel, depth0, depth, last);
  const auto known = groups_ ? std::nullopt : form_.known_rows;
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
  if (last) return store_register_tile(tile, rows, row, panel);
  return each_tile_vector(
      lowering_, compute_, rows, blocking_.tile_columns, [&](Expr i, Expr j) -> Status {
        program_.store(partial_at(i, j), program_.load(program_.at(tile, {i, j})));
        return {};
      });
}

}  // namespace opweld::tile
