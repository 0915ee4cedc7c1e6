#include "ops/axes.h"

#include <algorithm>
#include <numeric>

#include "ops/infer_helpers.h"

namespace opweld {
namespace {

template <typename Size>
std::vector<Size> reduced(const std::vector<Size>& sizes, const std::vector<int>& axes, bool keep) {
  std::vector<Size> result;
  for (int axis = 0; axis < static_cast<int>(sizes.size()); ++axis) {
    if (!std::binary_search(axes.begin(), axes.end(), axis)) {
      result.push_back(sizes[static_cast<std::size_t>(axis)]);
    } else if (keep) {
      result.emplace_back(1);
    }
  }
  return result;
}

}  // namespace

Expected<std::vector<int>> reduction_axes(const Attributes& attributes, int rank) {
  if (attributes.has("axes")) return normalize_axes(attributes.ints("axes"), rank);
  std::vector<int> all(static_cast<std::size_t>(rank));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

bool keeps_dims(const Attributes& attributes) {
  return attributes.integer("keepdims", 1) != 0;
}

Shape reduced_shape(const Shape& shape, const std::vector<int>& axes, bool keep) {
  return reduced(shape, axes, keep);
}

Sizes reduced_sizes(const Sizes& sizes, const std::vector<int>& axes, bool keep) {
  return reduced(sizes, axes, keep);
}

Expected<int> axis_attribute(const Attributes& attributes, int rank, std::int64_t otherwise) {
  return normalize_axis(attributes.integer("axis", otherwise), rank);
}

Expected<std::vector<TensorType>> infer_along_axis(const OpContext& context) {
  const TensorType& x = context.type(0);
  OPWELD_TRY([[maybe_unused]] const int axis, axis_attribute(context.attributes, x.rank(), -1));
  return std::vector<TensorType>{x};
}

AxisLines::AxisLines(const Sizes& sizes, int first, int last) {
  for (int axis = 0; axis < static_cast<int>(sizes.size()); ++axis) {
    std::int64_t& extent = axis < first ? outer : (axis < last ? length : inner);
    extent *= sizes[static_cast<std::size_t>(axis)];
  }
}

}  // namespace opweld
