// Schedule `contract`: one matmul with whatever pointwise work reads its result.
//
//   grid batch..., n in N step NB, m in M step MB
//     for each block of the depth but the last
//       for panels, for row tiles:  acc <- c; dot acc += a . b; c <- acc
//     for panels, for row tiles:    acc <- c or 0; dot acc += a . b;
//                                   store y <- epilogue(acc, bias, residual, ...)
//
// The epilogue is an expression over the register tile, evaluated by the element builder, so it is
// not limited to known forms. The left operand is read in place when it is a strided view of f32 or
// f64 data and otherwise packed row by row, which is where a prologue runs; a constant right
// operand comes packed in panels, any other is packed by the task. Rows that do not fill a register
// tile get smaller tiles of their own (powers of two), so nothing outside the operands is read.
//
// A gate pair, y = act(x [Wg | Wu] [.., :N]) * (x [Wg | Wu])[.., N:], walks the columns of y. Its
// weights are packed so that one register tile holds the same columns of both products (see
// Param::packed_parts), and the epilogue reads either.
//
// A grouped_matmul multiplies each row by the matrix of its group. Tasks are the same; inside one,
// each group that has rows in its block is multiplied by itself (see row_groups.h):
//
//     starts <- where each group starts, checked
//     for each block of the depth, for g in groups with rows in the block:  as above, with b[g]
#include <algorithm>
#include <cassert>
#include <optional>

#include "ops/op.h"
#include "tile/schedules/contract_blocking.h"
#include "tile/schedules/group_lowering.h"
#include "tile/schedules/register_tile.h"
#include "tile/schedules/row_groups.h"
#include "tile/schedules/schedules.h"

namespace opweld::tile {

namespace {

// The matmul of a group: result [batch..., M, N] = a [.., M, K] . b [.., K, N]; of a grouped one,
// result [M, N] = a [M, K] . b [group, K, N].
struct Contraction {
  const Node* node = nullptr;
  const Value* a = nullptr;
  const Value* b = nullptr;
  const Value* result = nullptr;
  Shape batch;  // batch axes that are walked one by one
  Dim rows;     // M; leading axes are merged into it when b has no batch axes
  Dim columns;  // of what is stored: N / parts
  Dim depth;
  // The result is read in so many slices of equal width, element by element, and not as a whole.
  int parts = 1;
  const Value* weights = nullptr;  // b, if it is packed once outside the kernel
  bool merges_rows = false;
  bool grouped = false;
  const Value* bias = nullptr;  // of a grouped one, [group, N]
};

Expected<Contraction> find_contraction(const Graph& group) {
  Contraction found;
  for (const auto& node : group.nodes()) {
    if (op_def(*node).trait != FusionTrait::Contract) continue;
    if (found.node != nullptr) return fail("it has two matmuls");
    found.node = node.get();
  }
  if (found.node == nullptr) return fail("it has no matmul");
  found.grouped = found.node->op() == "grouped_matmul";
  if (found.grouped && found.node->num_operands() > 3) found.bias = found.node->operand(3);
  found.a = found.node->operand(0);
  found.b = found.node->operand(1);
  found.result = found.node->result();
  const Node* const producer = found.b->producer();
  const bool constant = producer != nullptr && producer->op() == "constant";
  // A constant of one element is a number of the program, and no param that could be packed.
  const bool is_param = constant && found.b->type().num_elements() != Dim(1);
  if (is_param && found.b->uses().size() == 1) found.weights = found.b;
  const Shape& shape = found.result->shape();
  const auto rank = shape.size();
  found.columns = shape[rank - 1];
  found.depth = found.a->shape().back();
  found.batch.assign(shape.begin(), shape.end() - 2);
  found.rows = shape[rank - 2];
  const bool plain_weights = found.b->rank() == 2 && found.a->rank() == found.result->rank();
  if (plain_weights && !found.batch.empty()) {
    found.merges_rows = true;
    found.rows *= num_elements(found.batch);
    found.batch.clear();
  }
  return found;
}

constexpr int kMostParts = 2;

// With up to so many register tiles of rows, a matmul waits for its weights.
constexpr int kFewTiles = 4;

// Whether the slice takes columns [i * width, (i + 1) * width) of a value of that shape, for
// some i.
bool takes_part(const Node& slice, const Shape& shape, const Dim& width) {
  const Shape& starts = slice.attributes().shape("starts");
  const Ints& steps = slice.attributes().ints("steps");
  for (std::size_t axis = 0; axis + 1 < shape.size(); ++axis) {
    if (starts[axis] != Dim(0) || slice.result()->shape()[axis] != shape[axis]) return false;
  }
  return std::ranges::all_of(steps, [](auto step) { return step == 1; }) &&
         slice.result()->shape().back() == width && mod(starts.back(), width) == Dim(0);
}

// The shape of what is stored where the matmul's result is read in parts; empty where it is not.
Shape shape_of_parts(const Graph& group, const Contraction& contraction) {
  const auto columns = contraction.columns.constant();
  const bool one_matrix = contraction.b->rank() == 2 || contraction.grouped;
  if (contraction.weights == nullptr || !one_matrix || !columns) return {};
  if (*columns % kMostParts != 0) return {};
  Shape shape = contraction.result->shape();
  const Dim width = *columns / kMostParts;
  bool found = false;
  for (const auto& node : group.nodes()) {
    if (node->op() != "slice" || node->operand(0)->shape() != shape) continue;
    if (!takes_part(*node, shape, width)) return {};
    found = true;
  }
  if (!found) return {};
  shape.back() = width;
  return shape;
}

// The outputs over the result of the matmul, or over parts of it.
Expected<std::vector<DomainOutput>> find_outputs(const Graph& group, Contraction& contraction) {
  constexpr std::string_view kRefusal = "an output does not have the shape of the matmul's result";
  auto outputs = outputs_over(group, contraction.result->shape(), kRefusal);
  if (outputs) return outputs;
  const Shape shape = shape_of_parts(group, contraction);
  if (shape.empty()) return outputs;
  contraction.parts = kMostParts;
  contraction.columns = shape.back();
  return outputs_over(group, shape, kRefusal);
}

// Emits one contraction. Offsets are element offsets; positions m and n are absolute.
class ContractEmitter {
 public:
  // `rows` is the left operand where the micro-kernel can read it in place.
  ContractEmitter(GroupLowering& lowering, const Contraction& contraction,
                  std::vector<DomainOutput> outputs, std::optional<StridedOperand> rows)
      : lowering_(lowering),
        program_(lowering.program()),
        math_(lowering.math()),
        contraction_(contraction),
        outputs_(std::move(outputs)),
        compute_(compute_dtype(contraction.result->dtype())),
        blocking_(contract_blocking(*lowering.options().target, compute_,
                                    {contraction.rows, contraction.columns, contraction.depth,
                                     /*packs_rows=*/!rows.has_value(), contraction.parts})),
        tile_width_(blocking_.tile_columns / contraction.parts),
        block_width_(blocking_.columns / contraction.parts),
        strided_rows_(std::move(rows)) {
    if (contraction.weights != nullptr) {
      packed_weights_ = lowering.packed_param(contraction.weights);
    }
    if (contraction.grouped) groups_.emplace(lowering, *contraction.node);
  }

  Status emit() {
    emit_grid();
    if (groups_) OPWELD_CHECK(groups_->emit_starts());
    const Dim blocks = ceil_div(contraction_.depth, Dim(blocking_.depth));
    const bool single_block = provably_le(contraction_.depth, Dim(blocking_.depth));
    if (!single_block) {
      partial_ =
          program_.buffer("c", compute_, {blocking_.rows, blocking_.columns}, Buffer::Space::Cache);
      clear_partial();
      OPWELD_CHECK(lowering_.serial("kb", max(blocks - 1, Dim(0)), [&](Expr block) {
        const Expr start = math_.mul(block, Dim(blocking_.depth));
        return emit_block(start, math_.constant(blocking_.depth), /*last=*/false);
      }));
    }
    const Dim start = single_block ? Dim(0) : max(blocks - 1, Dim(0)) * blocking_.depth;
    return emit_block(math_.size(start), math_.size(contraction_.depth - start), /*last=*/true);
  }

 private:
  void emit_grid() {
    for (std::size_t axis = 0; axis < contraction_.batch.size(); ++axis) {
      batch_.push_back(lowering_.grid(fmt::format("b{}", axis), contraction_.batch[axis]));
    }
    // Bounds of groups are checked where nothing is computed, too.
    const Dim least = contraction_.grouped ? 1 : 0;
    column0_ = lowering_.grid("n0", max(contraction_.columns, least), block_width_);
    row0_ = lowering_.grid("m0", max(contraction_.rows, least), blocking_.rows);
    row_count_ = program_.min(program_.sub(contraction_.rows, row0_), blocking_.rows);
    column_count_ = program_.min(program_.sub(contraction_.columns, column0_), block_width_);
  }

  void clear_partial() {
    program_.serial("i", blocking_.rows, [&](Expr i) {
      program_.vector("j", blocking_.columns, {.unroll = 2, .lanes = lowering_.lanes()},
                      [&](Expr j) { program_.store(program_.at(*partial_, {i, j}), zero()); });
    });
  }

  Expr zero() { return program_.exprs().constant(0, compute_); }

  Status emit_block(Expr depth0, Expr depth, bool last) {
    if (!strided_rows_) OPWELD_CHECK(pack_rows(depth0, depth));
    if (!groups_) return emit_run(math_.constant(0), row_count_, depth0, depth, last);
    return groups_->each_group(row0_, row_count_, [&](Expr group, Expr first, Expr count) {
      batch_ = {group};
      return emit_run(math_.sub(first, row0_), count, depth0, depth, last);
    });
  }

  // The `count` rows from `first` on of the task's, which meet one right operand.
  Status emit_run(Expr first, Expr count, Expr depth0, Expr depth, bool last) {
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

  Status emit_row_tiles(Expr count, Expr panel, Expr depth0, Expr depth, bool last) {
    // The row count of a task is known when one task takes all rows or all tasks take as many.
    std::optional<std::int64_t> known;
    if (groups_) {
      known = std::nullopt;
    } else if (const auto rows = contraction_.rows.constant(); rows && *rows <= blocking_.rows) {
      known = rows;
    } else if (contraction_.rows.divisible_by(blocking_.rows)) {
      known = blocking_.rows;
    }
    return each_row_tile(lowering_, count, known, blocking_.tile_rows, [&](int rows, Expr row) {
      return emit_tile(rows, row, panel, depth0, depth, last);
    });
  }

  // One register tile at row `run_row` of the run's rows and column `panel` of the task's columns.
  Status emit_tile(int rows, Expr run_row, Expr panel, Expr depth0, Expr depth, bool last) {
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
      return each_tile_vector(lowering_, compute_, rows, tile_width_, [&](Expr i, Expr j) {
        return store_results(tile, i, j, row, panel);
      });
    }
    return each_tile_vector(
        lowering_, compute_, rows, blocking_.tile_columns, [&](Expr i, Expr j) -> Status {
          program_.store(partial_at(i, j), program_.load(program_.at(tile, {i, j})));
          return {};
        });
  }

  // The offset of the batch axes of a tensor whose matrices have the given strides.
  Expr batch_offset(const Shape& batch, std::span<const Dim> strides) {
    Expr offset = math_.constant(0);
    for (std::size_t axis = 0; axis < batch.size(); ++axis) {
      if (batch[axis] == Dim(1)) continue;
      const Expr at = batch_[batch_.size() - batch.size() + axis];
      offset = math_.add(offset, math_.mul(at, strides[axis]));
    }
    return offset;
  }

  DotOperand left_operand(Expr row, Expr depth0) {
    if (!strided_rows_) {
      return {program_.at_offset(*packed_rows_, math_.mul(row, Dim(blocking_.depth))),
              math_.constant(blocking_.depth), math_.constant(1)};
    }
    const StridedView& view = strided_rows_->view;
    const std::size_t batch_axes = view.shape.size() - 2;
    const Dim row_stride = view.strides[batch_axes];
    const Dim depth_stride = view.strides[batch_axes + 1];
    const Shape batch(view.shape.begin(), view.shape.end() - 2);
    Expr offset = math_.add(math_.size(view.offset), batch_offset(batch, view.strides));
    offset = math_.add(offset, math_.mul(math_.add(row0_, row), row_stride));
    offset = math_.add(offset, math_.mul(depth0, depth_stride));
    return {program_.at_offset(strided_rows_->param, offset), math_.size(row_stride),
            math_.size(depth_stride)};
  }

  // Of the tile of `rows` rows at `row` of the run. Its full tiles fetch the next panel between
  // them.
  DotOperand right_operand(int rows, Expr row, Expr panel, Expr depth0, Expr depth, bool last) {
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
    const Dim matrix = panels * width * contraction_.depth;
    std::vector<Dim> strides = row_major_strides(batch);
    for (Dim& stride : strides) stride *= matrix;
    const Expr matrix_offset = batch_offset(batch, strides);
    const auto panel_at = [&](Expr column, Expr depth_start) {
      const Expr at =
          math_.mul(math_.add(column0_, column), contraction_.depth * contraction_.parts);
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

  // Where the panel is that this thread goes on with: beside this one, and behind the task's last
  // one the first of the next block of depth. Between two tasks with the same columns there is
  // nothing to be fetched ahead: other rows are what the next task waits for.
  template <typename PanelAt>
  Expr panel_after(Expr panel, Expr depth0, bool last, const PanelAt& panel_at) {
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

  Index operand_index(const Value* operand, Expr first, Expr second) {
    Index index;
    const auto batch_axes = static_cast<std::size_t>(operand->rank()) - 2;
    for (std::size_t axis = 0; axis < batch_axes; ++axis) {
      const Expr at = batch_[batch_.size() - batch_axes + axis];
      index.push_back(operand->shape()[axis] == Dim(1) ? math_.constant(0) : at);
    }
    index.push_back(first);
    index.push_back(second);
    return index;
  }

  // Row-major rows x depth block of the left operand, computed as any element is.
  Status pack_rows(Expr depth0, Expr depth) {
    if (!packed_rows_) {
      packed_rows_ =
          program_.buffer("a", compute_, {blocking_.rows, blocking_.depth}, Buffer::Space::Cache);
    }
    return lowering_.serial("i", row_count_, Dim(blocking_.rows), [&](Expr i) -> Status {
      const Expr row = math_.add(row0_, i);
      math_.set_bound(row, contraction_.rows);
      return lowering_.vector("k", depth, Dim(blocking_.depth), 1, [&](Expr k) -> Status {
        const Expr at = math_.add(depth0, k);
        math_.set_bound(at, contraction_.depth);
        const Index index = contraction_.merges_rows
                                ? merged_index(contraction_.a->shape(), row, at)
                                : operand_index(contraction_.a, row, at);
        OPWELD_TRY(const Expr value, lowering_.elements().element(contraction_.a, index));
        program_.store(program_.at(*packed_rows_, {i, k}), value);
        return {};
      });
    });
  }

  // Panels of the right operand: [panel][depth][width], columns past the end filled with zeros.
  Status pack_columns(Expr depth0, Expr depth) {
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
          const Expr column = math_.add(math_.add(column0_, panel), j);
          const Expr inside = exprs.binary(ExprKind::Lt, column, math_.size(contraction_.columns));
          OPWELD_TRY(const Expr value,
                     lowering_.elements().element_where(
                         inside, contraction_.b, operand_index(contraction_.b, row, column)));
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

  // The index [leading..., last] of a tensor whose leading axes were merged into `row`.
  Index merged_index(const Shape& shape, Expr row, Expr last) {
    const Shape leading(shape.begin(), shape.end() - 1);
    Index index = math_.through_reshape(std::vector<Expr>{row}, leading, {num_elements(leading)});
    index.push_back(last);
    return index;
  }

  // The products of element (m, n), one for each part, from a register tile; those of columns past
  // the end, not `inside`, mean nothing.
  Status define_products(MemoryRef tile, Expr i, Expr j, const Index& index, Expr inside) {
    std::vector<std::pair<Index, Expr>> products;
    for (int part = 0; part < contraction_.parts; ++part) {
      Index at = index;
      at.back() = math_.add(at.back(), math_.size(contraction_.columns * part));
      const Expr column = math_.add(j, math_.constant(part * tile_width_));
      Expr product = program_.load(program_.at(tile, {i, column}));
      if (contraction_.bias != nullptr) {
        const Index place = {batch_.front(), at.back()};
        OPWELD_TRY(const Expr bias,
                   inside == kNoExpr
                       ? lowering_.elements().element(contraction_.bias, place)
                       : lowering_.elements().element_where(inside, contraction_.bias, place));
        product = program_.exprs().binary(ExprKind::Add, product, bias);
      }
      if (lowering_.options().strict) {
        product = program_.exprs().store(product, contraction_.result->dtype());
      }
      products.emplace_back(std::move(at), product);
    }
    lowering_.elements().define(contraction_.result, [=](std::span<const Expr> asked) {
      for (const auto& [at, product] : products) {
        if (std::equal(asked.begin(), asked.end(), at.begin(), at.end())) return product;
      }
      return kNoExpr;
    });
    return {};
  }

  Status store_results(MemoryRef tile, Expr i, Expr j, Expr row, Expr panel) {
    ExprPool& exprs = program_.exprs();
    const Expr m = math_.add(row0_, math_.add(row, i));
    math_.set_bound(m, contraction_.rows);
    const Expr n = math_.add(column0_, math_.add(panel, j));
    math_.set_bound(n, contraction_.columns);
    Index index = contraction_.merges_rows ? merged_index(contraction_.result->shape(), m, n)
                                           : operand_index(contraction_.result, m, n);
    for (std::size_t axis = 0; axis < index.size(); ++axis) {
      const bool is_column = axis + 1 == index.size();
      const Dim& size = is_column ? contraction_.columns : contraction_.result->shape()[axis];
      if (size == Dim(1)) index[axis] = math_.constant(0);
    }
    const bool whole_panels = contraction_.columns.divisible_by(tile_width_);
    const Expr inside =
        whole_panels ? kNoExpr : exprs.binary(ExprKind::Lt, n, math_.size(contraction_.columns));
    OPWELD_CHECK(define_products(tile, i, j, index, inside));
    for (const DomainOutput& output : outputs_) {
      OPWELD_CHECK(lowering_.store(output, index, inside));
    }
    return {};
  }

  GroupLowering& lowering_;
  ProgramBuilder& program_;
  IndexMath& math_;
  const Contraction& contraction_;
  std::vector<DomainOutput> outputs_;
  DType compute_;
  ContractBlocking blocking_;
  int tile_width_;            // columns that a register tile has of each part
  std::int64_t block_width_;  // and a task
  std::optional<MemoryRef> packed_weights_;
  std::optional<StridedOperand> strided_rows_;
  std::optional<RowGroups> groups_;
  std::optional<MemoryRef> partial_;
  std::optional<MemoryRef> packed_rows_;
  std::optional<MemoryRef> packed_columns_;
  Index batch_;
  Expr row0_ = kNoExpr;
  Expr run0_ = kNoExpr;  // of the task's rows, the first that is multiplied now
  Expr run_rows_ = kNoExpr;
  Expr column0_ = kNoExpr;
  Expr row_count_ = kNoExpr;
  Expr column_count_ = kNoExpr;
};

// The left operand as the micro-kernel can read it in place: f32 or f64, strided, rows merged if
// the contraction merges them.
std::optional<StridedOperand> strided_rows(const GroupLowering& lowering,
                                           const Contraction& contraction) {
  const DType dtype = contraction.a->dtype();
  if (dtype != DType::F32 && dtype != DType::F64) return std::nullopt;
  auto operand = lowering.strided_operand(contraction.a);
  if (!operand || !contraction.merges_rows) return operand;
  auto merged = operand->view.reshape({contraction.rows, contraction.depth});
  if (!merged) return std::nullopt;
  return StridedOperand{operand->param, std::move(*merged)};
}

}  // namespace

Expected<LoweredKernel> lower_contract(const Graph& group, const LowerOptions& options,
                                       std::string name) {
  OPWELD_TRY(Contraction contraction, find_contraction(group));
  if (!is_float(contraction.result->dtype())) return fail("integer matmuls are run by a call");
  OPWELD_TRY(std::vector<DomainOutput> outputs, find_outputs(group, contraction));
  GroupLowering lowering(group, options, std::move(name));
  if (contraction.weights != nullptr) {
    const DType compute = compute_dtype(contraction.result->dtype());
    const int columns =
        packed_columns(*options.target, compute, contraction.columns, contraction.parts);
    lowering.request_packed(contraction.weights, columns, contraction.parts);
  }
  lowering.bind_params();
  ContractEmitter emitter(lowering, contraction, std::move(outputs),
                          strided_rows(lowering, contraction));
  OPWELD_CHECK(emitter.emit());
  return lowering.finish();
}

}  // namespace opweld::tile
