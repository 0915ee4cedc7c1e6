#include "tile/element_builder.h"

#include <algorithm>
#include <cassert>

#include "ops/op.h"

namespace opweld::tile {

bool has_element_form(const Node& node) {
  static const std::set<std::string, std::less<>> kOthers = {
      "reshape", "transpose",       "expand", "slice", "concat", "pad",
      "gather",  "gather_elements", "tile",   "iota",  "sizes",  "constant"};
  if (const OpDef* def = find_op(node.op()); def && def->trait == FusionTrait::Pointwise)
    return true;
  if (node.op() == "pad") {
    const std::string mode = node.attributes().text("mode", "constant");
    return mode == "constant";
  }
  if (node.op() == "constant") return node.result()->type().num_elements() == Dim(1);
  return kOthers.contains(node.op());
}

Expected<Expr> ElementBuilder::element(const Value* value, std::span<const Expr> index) {
  assert(static_cast<int>(index.size()) == value->rank());
  if (const auto known = emitted(value, index)) return *known;
  OPWELD_TRY(const Expr result, compute(value, index));
  remember(value, index, result);
  return result;
}

std::optional<Expr> ElementBuilder::emitted(const Value* value, std::span<const Expr> index) const {
  const std::size_t* const newest = newest_.find(value);
  if (newest == nullptr) return std::nullopt;
  for (std::size_t i = *newest; i != 0; i = emitted_[i - 1].previous) {
    const Emitted& known = emitted_[i - 1];
    const std::span<const Expr> at(indices_.data() + known.index_begin, known.index_size);
    if (known.where == where_ && std::ranges::equal(at, index)) return known.element;
  }
  return std::nullopt;
}

void ElementBuilder::remember(const Value* value, std::span<const Expr> index, Expr element) {
  std::size_t& newest = newest_[value];
  emitted_.push_back({value, indices_.size(), index.size(), where_, element, newest});
  indices_.insert(indices_.end(), index.begin(), index.end());
  newest = emitted_.size();
}

void ElementBuilder::forget_after(std::size_t count) {
  while (emitted_.size() > count) {
    const Emitted& last = emitted_.back();
    newest_[last.value] = last.previous;
    indices_.resize(last.index_begin);
    emitted_.pop_back();
  }
}

Expected<Expr> ElementBuilder::compute(const Value* value, std::span<const Expr> index) {
  // What a schedule has at hand is of this row, and a prefetch is for another.
  const Definition* const definition = definitions_.find(value);
  if (definition != nullptr && *definition != nullptr && !prefetched_) {
    const Expr defined = (*definition)(index);
    if (defined == kNoExpr) {
      return fail("the group reads a computed value in another order than it is computed");
    }
    return defined;
  }
  if (has_param(value)) return load(param_of(value), value->shape(), index);
  const Node* node = value->producer();
  if (node == nullptr)
    return fail("the group reads '{}', which is not among its inputs", value->name());
  const FusionTrait trait = op_def(*node).trait;
  if (trait == FusionTrait::Pointwise) return pointwise(*node, index);
  if (trait == FusionTrait::Source) return source(*node, index);
  return view(*node, index);
}

Index ElementBuilder::broadcast_index(const Value* operand, std::span<const Expr> index) {
  const auto rank = static_cast<std::size_t>(operand->rank());
  Index result(index.end() - static_cast<std::ptrdiff_t>(rank), index.end());
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (operand->shape()[axis] == Dim(1)) result[axis] = math_.constant(0);
  }
  return result;
}

Expected<Expr> ElementBuilder::broadcast_element(const Value* operand,
                                                 std::span<const Expr> index) {
  const bool repeats =
      operand->shape().size() != index.size() ||
      std::ranges::any_of(operand->shape(), [](const Dim& size) { return size.constant() == 1; });
  return repeats ? element(operand, broadcast_index(operand, index)) : element(operand, index);
}

Expected<Expr> ElementBuilder::pointwise(const Node& node, std::span<const Expr> index) {
  std::vector<Expr> arguments;
  arguments.reserve(node.operands().size());
  for (const Value* operand : node.operands()) {
    if (operand == nullptr) {
      arguments.push_back(kNoExpr);
      continue;
    }
    OPWELD_TRY(const Expr argument, broadcast_element(operand, index));
    arguments.push_back(argument);
  }
  const OpContext context{node.operands(), node.attributes()};
  const Expr value = op_def(node).scalar(context, pool(), arguments);
  // Small integers wrap at every operator. Halves keep their f32 value inside a kernel, which is
  // never less accurate, unless every intermediate must look as if it had been stored.
  const DType dtype = node.result()->dtype();
  const bool half = dtype == DType::F16 || dtype == DType::BF16;
  if (half && !strict_) return value;
  return pool().store(value, dtype);
}

Expr ElementBuilder::load(int param, const Shape& shape, std::span<const Expr> index) {
  Access access;
  access.memory = Access::Memory::Param;
  access.target = param;
  access.index.assign(index.begin(), index.end());
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == Dim(1)) access.index[axis] = math_.constant(0);
  }
  if (const auto offset = math_.undivided_offset(access.index, shape)) {
    access.index = {*offset};
    access.linear = true;
  }
  if (!is_prefetched(access)) return program_.load(access, where_);
  const DType type =
      compute_dtype(program_.program().params[static_cast<std::size_t>(param)].dtype);
  program_.prefetch(std::move(access));
  return is_float(type) ? pool().constant(0, type) : pool().integer(0, type);
}

bool ElementBuilder::is_prefetched(const Access& access) {
  if (!prefetched_) return false;
  bool has_column = false;
  bool has_row = false;
  for (const Expr index : access.index) {
    for (const Expr part : reachable_exprs(pool(), index)) {
      has_column = has_column || part == prefetched_->column;
      // A position that was loaded counts as well as the row itself.
      has_row = has_row || part == prefetched_->row || pool()[part].kind == ExprKind::Input;
    }
  }
  return has_column && has_row;
}

Status ElementBuilder::prefetch(const Value* value, std::span<const Expr> index, Expr column,
                                Expr row) {
  prefetched_ = Prefetched{column, row};
  const Scope scope(*this);  // what stands for values that were not loaded is forgotten
  const auto element = this->element(value, index);
  prefetched_.reset();
  if (!element) return tl::unexpected(element.error());
  return {};
}

Expected<Expr> ElementBuilder::element_where(Expr condition, const Value* value,
                                             std::span<const Expr> index) {
  const Expr outer = where_;
  where_ = outer == kNoExpr ? condition : pool().binary(ExprKind::And, outer, condition);
  auto result = element(value, index);
  where_ = outer;
  return result;
}

Expected<Expr> ElementBuilder::view(const Node& node, std::span<const Expr> index) {
  const Value* operand = node.operand(0);
  if (node.op() == "reshape" || node.op() == "transpose" || node.op() == "slice") {
    return element(operand, index_into_operand(node, index));
  }
  if (node.op() == "expand") return broadcast_element(operand, index);
  if (node.op() == "tile") {
    Index inner(index.begin(), index.end());
    for (std::size_t axis = 0; axis < inner.size(); ++axis) {
      inner[axis] = math_.mod(inner[axis], operand->shape()[axis]);
    }
    return element(operand, inner);
  }
  if (node.op() == "concat") return concat(node, index);
  if (node.op() == "pad") return pad(node, index);
  if (node.op() == "gather") return gather(node, index);
  if (node.op() == "gather_elements") return gather_elements(node, index);
  return fail("operator '{}' has no element form", node.op());
}

Index ElementBuilder::index_into_operand(const Node& view, std::span<const Expr> index) {
  if (view.op() == "reshape") {
    return math_.through_reshape(index, view.operand(0)->shape(), view.result()->shape());
  }
  Index inner(index.size());
  if (view.op() == "transpose") {
    const Ints& permutation = view.attributes().ints("permutation");
    for (std::size_t axis = 0; axis < index.size(); ++axis) {
      inner[static_cast<std::size_t>(permutation[axis])] = index[axis];
    }
    return inner;
  }
  assert(view.op() == "slice");
  const Shape& starts = view.attributes().shape("starts");
  const Ints& steps = view.attributes().ints("steps");
  for (std::size_t axis = 0; axis < index.size(); ++axis) {
    inner[axis] = math_.add(math_.mul(index[axis], Dim(steps[axis])), math_.size(starts[axis]));
  }
  return inner;
}

Index index_behind_view(IndexMath& math, const Node& view, std::span<const Expr> index) {
  if (view.op() == "reshape") {
    return math.through_reshape(index, view.result()->shape(), view.operand(0)->shape());
  }
  assert(view.op() == "transpose");
  Index moved;
  for (const std::int64_t axis : view.attributes().ints("permutation")) {
    moved.push_back(index[static_cast<std::size_t>(axis)]);
  }
  return moved;
}

// The operands lie one after the other along the axis; each lane reads the one it falls into.
Expected<Expr> ElementBuilder::concat(const Node& node, std::span<const Expr> index) {
  const auto rank = static_cast<std::int64_t>(index.size());
  const std::int64_t given = node.attributes().integer("axis");
  const auto axis = static_cast<std::size_t>(given < 0 ? given + rank : given);
  ExprPool& exprs = pool();
  Dim start = 0;
  Expr result = kNoExpr;
  for (const Value* operand : node.operands()) {
    const Dim end = start + operand->shape()[axis];
    const auto past = math_.past(index[axis], start);
    if (past && math_.below(*past, operand->shape()[axis])) {
      Index inner(index.begin(), index.end());
      inner[axis] = *past;
      return element(operand, inner);
    }
    start = end;
  }
  start = 0;
  for (const Value* operand : node.operands()) {
    const Dim end = start + operand->shape()[axis];
    const Expr reached = exprs.binary(ExprKind::Le, math_.size(start), index[axis]);
    const Expr before_end = exprs.binary(ExprKind::Lt, index[axis], math_.size(end));
    Index inner(index.begin(), index.end());
    inner[axis] = math_.sub(index[axis], math_.size(start));
    OPWELD_TRY(const Expr part,
               element_where(exprs.binary(ExprKind::And, reached, before_end), operand, inner));
    result = result == kNoExpr ? part : exprs.select(reached, part, result);
    start = end;
  }
  return result;
}

Expected<Expr> ElementBuilder::pad(const Node& node, std::span<const Expr> index) {
  const Value* operand = node.operand(0);
  const Shape& before = node.attributes().shape("before");
  ExprPool& exprs = pool();
  Expr inside = kNoExpr;
  Index inner(index.size());
  for (std::size_t axis = 0; axis < index.size(); ++axis) {
    inner[axis] = math_.sub(index[axis], math_.size(before[axis]));
    const Expr here =
        exprs.binary(ExprKind::And, exprs.binary(ExprKind::Le, math_.constant(0), inner[axis]),
                     exprs.binary(ExprKind::Lt, inner[axis], math_.size(operand->shape()[axis])));
    inside = inside == kNoExpr ? here : exprs.binary(ExprKind::And, inside, here);
  }
  if (inside == kNoExpr) return element(operand, inner);
  OPWELD_TRY(const Expr value, element_where(inside, operand, inner));
  const DType type = compute_dtype(operand->dtype());
  Expr filler = exprs.constant(0, type);
  if (node.num_operands() > 1 && node.operand(1) != nullptr) {
    OPWELD_TRY(filler,
               element(node.operand(1), Index(static_cast<std::size_t>(node.operand(1)->rank()),
                                              math_.constant(0))));
  }
  return exprs.select(inside, value, filler);
}

ElementBuilder::Position ElementBuilder::checked_position(const Node& node, Expr raw,
                                                          const Dim& extent) {
  ExprPool& exprs = pool();
  const Expr wide = exprs.convert(raw, DType::I64);
  const Expr zero = math_.constant(0);
  const Expr size = math_.size(extent);
  const Expr position = exprs.select(exprs.binary(ExprKind::Lt, wide, zero),
                                     exprs.binary(ExprKind::Add, wide, size), wide);
  const Expr in_range = exprs.binary(ExprKind::And, exprs.binary(ExprKind::Le, zero, position),
                                     exprs.binary(ExprKind::Lt, position, size));
  if (prefetched_) return {position, in_range};
  // Lanes that are masked off anyway have no position to be right or wrong about.
  const Expr tolerated =
      where_ == kNoExpr ? in_range
                        : exprs.binary(ExprKind::Or, in_range, exprs.unary(ExprKind::Not, where_));
  program_.check(tolerated, fmt::format("{} '{}': an index is out of range of an axis of size {}",
                                        node.op(), node.display_name(), extent));
  return {position, in_range};
}

Expected<Expr> ElementBuilder::gather(const Node& node, std::span<const Expr> index) {
  const Value* data = node.operand(0);
  const Value* positions = node.operand(1);
  const std::int64_t given = node.attributes().integer("axis");
  const auto axis = static_cast<std::size_t>(given < 0 ? given + data->rank() : given);
  const auto width = static_cast<std::size_t>(positions->rank());
  OPWELD_TRY(const Expr raw, element(positions, index.subspan(axis, width)));
  const Position at = checked_position(node, raw, data->shape()[axis]);
  Index inner(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(axis));
  inner.push_back(at.position);
  inner.insert(inner.end(), index.begin() + static_cast<std::ptrdiff_t>(axis + width), index.end());
  return element_where(at.in_range, data, inner);
}

Expected<Expr> ElementBuilder::gather_elements(const Node& node, std::span<const Expr> index) {
  const Value* data = node.operand(0);
  const std::int64_t given = node.attributes().integer("axis");
  const auto axis = static_cast<std::size_t>(given < 0 ? given + data->rank() : given);
  OPWELD_TRY(const Expr raw, element(node.operand(1), index));
  const Position at = checked_position(node, raw, data->shape()[axis]);
  Index inner(index.begin(), index.end());
  inner[axis] = at.position;
  return element_where(at.in_range, data, inner);
}

Expected<Expr> ElementBuilder::source(const Node& node, std::span<const Expr> index) {
  const Value* value = node.result();
  const DType type = compute_dtype(value->dtype());
  ExprPool& exprs = pool();
  if (node.op() == "iota") {
    const auto axis = static_cast<std::size_t>(node.attributes().integer("axis", 0));
    return exprs.store(exprs.convert(index[axis], type), value->dtype());
  }
  if (node.op() == "sizes") {
    const Shape& values = node.attributes().shape("values");
    Expr result = math_.constant(0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Expr here = exprs.binary(ExprKind::Eq, index[0], math_.constant(static_cast<int>(i)));
      result = values.size() == 1 ? math_.size(values[i])
                                  : exprs.select(here, math_.size(values[i]), result);
    }
    return exprs.convert(result, type);
  }
  assert(node.op() == "constant");
  const Tensor& tensor = node.attributes().tensor("value");
  if (tensor.num_elements() != 1) return fail("a constant tensor must be an input of its group");
  return is_float(type) ? exprs.constant(tensor.get_double(0), type)
                        : exprs.integer(tensor.get_int(0), type);
}

}  // namespace opweld::tile
