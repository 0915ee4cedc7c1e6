#include "tile/schedules/scattered_output.h"

#include <algorithm>

namespace opweld::tile {

namespace {

constexpr int kUpdate = 1;
constexpr int kWriteIndices = 2;

std::size_t axis_of(const Node& scatter) {
  return static_cast<std::size_t>(scatter.attributes().integer("axis"));
}

// The index into the update of the element at `index` of the value that it is a view of.
Index index_in_update(IndexMath& math, const DomainOutput& output, std::span<const Expr> index) {
  std::vector<const Node*> views;
  for (const Value* value = output.scatter->operand(kUpdate); value != output.value;) {
    views.push_back(value->producer());
    value = value->producer()->operand(0);
  }
  Index at(index.begin(), index.end());
  for (auto view = views.rbegin(); view != views.rend(); ++view) {
    at = index_behind_view(math, **view, at);
  }
  return at;
}

// The write index of a sequence, as i64; lanes for which `where` does not hold may have none.
Expected<Expr> write_index(GroupLowering& lowering, const Value* indices, Expr sequence,
                           Expr where) {
  const bool one = indices->shape()[0] == Dim(1);
  const Index at = {one ? lowering.math().constant(0) : sequence};
  const bool all_have_one = where == kNoExpr || one || !lowering.program().may_vary(sequence);
  OPWELD_TRY(const Expr given, all_have_one
                                   ? lowering.elements().element(indices, at)
                                   : lowering.elements().element_where(where, indices, at));
  return lowering.program().exprs().convert(given, DType::I64);
}

// The whole update must lie in the cache.
void check_range(GroupLowering& lowering, const Node& scatter, Expr sequence, Expr start,
                 Expr where) {
  ProgramBuilder& program = lowering.program();
  ExprPool& exprs = program.exprs();
  const std::size_t axis = axis_of(scatter);
  const Expr rows = lowering.math().size(scatter.operand(kUpdate)->shape()[axis]);
  const Expr length = lowering.math().size(scatter.result()->shape()[axis]);
  const Expr last = exprs.binary(ExprKind::Sub, length, rows);
  const Expr fits =
      exprs.binary(ExprKind::And, exprs.binary(ExprKind::Le, lowering.math().constant(0), start),
                   exprs.binary(ExprKind::Le, start, last));
  const Expr tolerated =
      where == kNoExpr ? fits : exprs.binary(ExprKind::Or, fits, exprs.unary(ExprKind::Not, where));
  std::vector<Check::Shown> shown;
  if (!program.may_vary(sequence)) {
    shown = {{"batch", sequence}, {"write index", start}, {"rows", rows}, {"cache rows", length}};
  }
  program.check(tolerated,
                fmt::format("tensor_scatter '{}': a write index puts rows of the update outside "
                            "the cache",
                            scatter.display_name()),
                std::move(shown));
}

}  // namespace

bool is_store(const Node& node) {
  return node.op() == "tensor_scatter";
}

const Value* computed_for(const Value* output) {
  const Node* const node = output->producer();
  return node != nullptr && is_store(*node) ? node->operand(kUpdate) : output;
}

std::optional<DomainOutput> scattered_over(const Value* output, const Shape& domain) {
  const Node* const scatter = output->producer();
  const Value* const update = scatter->operand(kUpdate);
  const StridedView cache{update->shape(), row_major_strides(output->shape()), 0};
  for (const Value* value = update;;) {
    if (value->shape() == domain) {
      auto view = store_view(value, update, cache);
      if (!view) return std::nullopt;
      return DomainOutput{value, output, std::move(*view), scatter};
    }
    const Node* const node = value->producer();
    if (node == nullptr || (node->op() != "reshape" && node->op() != "transpose")) {
      return std::nullopt;
    }
    value = node->operand(0);
  }
}

Expected<Expr> scattered_offset(GroupLowering& lowering, const DomainOutput& output,
                                std::span<const Expr> index, Expr where) {
  IndexMath& math = lowering.math();
  ProgramBuilder& program = lowering.program();
  ExprPool& exprs = program.exprs();
  const Node& scatter = *output.scatter;
  const std::size_t axis = axis_of(scatter);
  const Dim& length = scatter.result()->shape()[axis];
  const Dim stride = row_major_strides(scatter.result()->shape())[axis];
  Expr offset = math.size(output.view.offset);
  for (std::size_t i = 0; i < index.size(); ++i) {
    offset = math.add(offset, math.mul(index[i], output.view.strides[i]));
  }
  const bool has_indices = scatter.num_operands() > kWriteIndices;
  const Value* const indices = has_indices ? scatter.operand(kWriteIndices) : nullptr;
  if (indices == nullptr) return offset;
  const Index at = index_in_update(math, output, index);
  OPWELD_TRY(const Expr start, write_index(lowering, indices, at.front(), where));
  if (scatter.attributes().text("mode") != "circular") {
    check_range(lowering, scatter, at.front(), start, where);
    return program.add(offset, program.mul(start, stride));
  }
  // From [0, length) on; no update is longer than the cache, so it wraps once at most.
  const Expr size = math.size(length);
  const Expr row = program.add(exprs.binary(ExprKind::Mod, start, size), at[axis]);
  const Expr wrapped =
      exprs.select(exprs.binary(ExprKind::Lt, row, size), row, program.sub(row, size));
  return program.add(offset, program.mul(program.sub(wrapped, at[axis]), stride));
}

}  // namespace opweld::tile
