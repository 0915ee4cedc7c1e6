#include "ops/infer_helpers.h"

#include <algorithm>

namespace opweld {
namespace {

const Dim& size_from_end(const Shape& shape, std::size_t axis_from_end) {
  return shape[shape.size() - axis_from_end];
}

}  // namespace

Expected<int> normalize_axis(std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    if (rank == 0) return fail("axis {} is out of range: a scalar has no axes", axis);
    return fail("axis {} is out of range for rank {}; it must be in [{}, {}]", axis, rank, -rank,
                rank - 1);
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Expected<std::vector<int>> normalize_axes(const Ints& axes, int rank) {
  std::vector<int> normal;
  normal.reserve(axes.size());
  for (const std::int64_t axis : axes) {
    OPWELD_TRY(const int position, normalize_axis(axis, rank));
    normal.push_back(position);
  }
  std::sort(normal.begin(), normal.end());
  const auto twice = std::adjacent_find(normal.begin(), normal.end());
  if (twice != normal.end()) return fail("axis {} is named twice", *twice);
  return normal;
}

Expected<Dim> unify_sizes(const Dim& a, const Dim& b, std::string_view what,
                          std::vector<SizeAssumption>* assumptions) {
  if (a == b) return a;
  if (a.is_overflow() || b.is_overflow()) return fail("{} are too large", what);
  if (provably_lt(a, b) || provably_lt(b, a)) {
    return fail("{} must have the same size, but have {} and {}", what, a, b);
  }
  if (assumptions != nullptr) assumptions->push_back({a, b, fmt::format("{} must be equal", what)});
  return b.is_constant() ? b : a;
}

Status require_same_size(const OpContext& context, const Dim& a, const Dim& b,
                         std::string_view what) {
  const auto same = unify_sizes(a, b, what, context.assumptions);
  return same ? Status() : tl::unexpected(same.error());
}

Status require_multiple(const OpContext& context, const Dim& size, const Dim& divisor,
                        std::string_view what) {
  if (size == divisor) return {};
  if (divisor == 0) return fail("{} {} cannot be divided by 0", what, size);
  const Dim rest = mod(size, divisor);
  if (!unify_sizes(rest, 0, fmt::format("{} modulo {}, and 0,", what, divisor),
                   context.assumptions)) {
    return fail("{} {} is no multiple of {}", what, size, divisor);
  }
  return {};
}

Expected<Shape> unify_shapes(const Shape& a, const Shape& b, std::string_view what,
                             std::vector<SizeAssumption>* assumptions) {
  if (a.size() != b.size()) {
    return fail("{} must have the same shape, but have {} and {}", what, to_string(a),
                to_string(b));
  }
  Shape shape;
  shape.reserve(a.size());
  for (std::size_t axis = 0; axis < a.size(); ++axis) {
    OPWELD_TRY(Dim size, unify_sizes(a[axis], b[axis], fmt::format("axis {} of {}", axis, what),
                                     assumptions));
    shape.push_back(std::move(size));
  }
  return shape;
}

Expected<Shape> broadcast_shapes(const Shape& a, const Shape& b, std::string_view what,
                                 std::vector<SizeAssumption>* assumptions) {
  const std::size_t rank = std::max(a.size(), b.size());
  Shape shape(rank);
  for (std::size_t from_end = 1; from_end <= rank; ++from_end) {
    Dim& size = shape[rank - from_end];
    if (from_end > a.size() || (from_end <= b.size() && size_from_end(a, from_end) == 1)) {
      size = size_from_end(b, from_end);
    } else if (from_end > b.size() || size_from_end(b, from_end) == 1) {
      size = size_from_end(a, from_end);
    } else {
      auto common = unify_sizes(size_from_end(a, from_end), size_from_end(b, from_end),
                                fmt::format("axis -{} of {}", from_end, what), assumptions);
      if (!common) {
        return fail("{} do not broadcast: {} and {} differ on axis -{}", what, to_string(a),
                    to_string(b), from_end);
      }
      size = std::move(*common);
    }
  }
  return shape;
}

Expected<Shape> broadcast_operands(const OpContext& context) {
  Shape shape;
  for (int index = 0; index < static_cast<int>(context.operands.size()); ++index) {
    if (!context.has(index)) continue;
    OPWELD_TRY(shape, broadcast_shapes(shape, context.type(index).shape, "the operands",
                                       context.assumptions));
  }
  return shape;
}

Status require_broadcast_to(const OpContext& context, int index, std::string_view name,
                            const Shape& target) {
  if (!context.has(index)) return {};
  const Shape& shape = context.type(index).shape;
  const std::string failure = fmt::format("operand '{}' {} does not broadcast to {}", name,
                                          to_string(shape), to_string(target));
  if (shape.size() > target.size()) return fail("{}: it has more axes", failure);
  for (std::size_t from_end = 1; from_end <= shape.size(); ++from_end) {
    const Dim& size = size_from_end(shape, from_end);
    if (size == 1) continue;
    const auto same = unify_sizes(size_from_end(target, from_end), size,
                                  fmt::format("axis -{} of '{}' and its target", from_end, name),
                                  context.assumptions);
    if (!same) return fail("{}: they differ on axis -{}", failure, from_end);
  }
  return {};
}

Expected<std::vector<TensorType>> infer_pointwise(const OpContext& context, DType dtype) {
  OPWELD_TRY(Shape shape, broadcast_operands(context));
  return std::vector<TensorType>{{dtype, std::move(shape), common_format(context)}};
}

Status require_rank(const OpContext& context, int index, int rank) {
  if (context.type(index).rank() == rank) return {};
  return fail("operand {} must have rank {}, but is {}", index, rank,
              to_string(context.type(index)));
}

Status require_min_rank(const OpContext& context, int index, int rank) {
  if (context.type(index).rank() >= rank) return {};
  return fail("operand {} must have rank {} or more, but is {}", index, rank,
              to_string(context.type(index)));
}

Format common_format(const OpContext& context) {
  int rank = 0;
  for (const Value* operand : context.operands) {
    if (operand != nullptr) rank = std::max(rank, operand->rank());
  }
  Format format = Format::Plain;
  bool found = false;
  for (const Value* operand : context.operands) {
    if (operand == nullptr || operand->rank() != rank) continue;
    if (found && operand->type().format != format) return Format::Plain;
    format = operand->type().format;
    found = true;
  }
  return format;
}

}  // namespace opweld
