// Indices that are data: the gather and scatter families.
#pragma once

#include <cstdint>
#include <utility>

#include "graph/tensor.h"
#include "ops/element_walk.h"
#include "ops/infer_helpers.h"
#include "ops/size_rules.h"
#include "support/expected.h"

namespace opweld {

// Element `position` of `indices` as a place in [0, extent); negative ones count from the end. An
// index outside [-extent, extent) is an error.
inline Expected<std::int64_t> resolve_index(const Tensor& indices, std::int64_t position,
                                            std::int64_t extent, std::int64_t axis) {
  const std::int64_t index = indices.get_int(position);
  if (index >= 0 && index < extent) return index;
  if (index < 0 && index >= -extent) return index + extent;
  return fail("index {} (element {} of indices) is out of range for axis {} of size {}", index,
              position, axis, extent);
}

// The shape rule of gather_elements and scatter_elements: an index for each of some elements of x,
// none of them outside x along the other axes.
inline Status check_element_indices(const OpContext& context, std::int64_t axis) {
  const Shape& x = context.type(0).shape;
  const Shape& indices = context.type(1).shape;
  if (indices.size() != x.size()) {
    return fail("indices have rank {}, x has rank {}", indices.size(), x.size());
  }
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (static_cast<std::int64_t>(i) == axis) continue;
    OPWELD_CHECK(require_at_most(
        context, indices[i], x[i],
        fmt::format("the size of axis {} of indices must not exceed that of x", i)));
  }
  return {};
}

// Calls visit(position, place) for every element of `indices`: `place` is the element of a tensor
// of these sizes that it stands for, its own position but for `axis`, where the index decides.
template <typename Visit>
Status for_each_indexed(const Tensor& indices, const Sizes& sizes, std::size_t axis,
                        const Visit& visit) {
  Sizes strides = row_major_strides(sizes);
  const std::int64_t axis_stride = std::exchange(strides[axis], 0);
  Status status;
  walk(indices.sizes(), strides, 0, [&](std::int64_t position, std::int64_t offset) {
    if (!status) return;
    const auto place =
        resolve_index(indices, position, sizes[axis], static_cast<std::int64_t>(axis));
    if (place) {
      visit(position, offset + *place * axis_stride);
    } else {
      status = tl::unexpected(place.error());
    }
  });
  return status;
}

}  // namespace opweld
