#include "ops/size_rules.h"

namespace opweld {

Status check_axis(std::int64_t axis, int rank) {
  if (axis >= 0 && axis < rank) return {};
  if (rank == 0) return fail("axis {} is out of range: a scalar has no axes", axis);
  return fail("axis {} is out of range for rank {}; it must be in [0, {}]", axis, rank, rank - 1);
}

Status require_at_most(const OpContext& context, const Dim& left, const Dim& right,
                       std::string_view what) {
  if (left.is_overflow() || right.is_overflow()) {
    return fail("{}, but a size is too large to represent", what);
  }
  if (provably_le(left, right)) return {};
  if (provably_lt(right, left)) return fail("{}, but they are {} and {}", what, left, right);
  if (context.assumptions != nullptr) {
    context.assumptions->push_back({max(left, right), right, std::string(what)});
  }
  return {};
}

Status check_sizes(const OpContext& context, const Shape& shape, std::string_view what) {
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const Dim& size = shape[axis];
    if (size.is_overflow()) return fail("{} {} is too large to represent", what, axis);
    if (provably_lt(size, 0)) return fail("{} {} is negative: {}", what, axis, size);
    OPWELD_CHECK(
        require_at_most(context, 0, size, fmt::format("{} {} must not be negative", what, axis)));
  }
  return {};
}

Expected<Dim> single_dim(const Attributes& attributes, std::string_view name) {
  const Shape& dims = attributes.shape(name);
  if (dims.size() != 1) {
    return fail("attribute '{}' must hold one size, it holds {}", name, dims.size());
  }
  if (dims[0].is_overflow()) return fail("attribute '{}' is too large to represent", name);
  return dims[0];
}

Expected<std::vector<TensorType>> one_result(const OpContext& context, TensorType type) {
  OPWELD_CHECK(check_sizes(context, type.shape, "the result's size on axis"));
  return std::vector<TensorType>{std::move(type)};
}

}  // namespace opweld
