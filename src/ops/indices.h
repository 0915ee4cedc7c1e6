// Indices that are data: the gather and scatter families.
#pragma once

#include <cstdint>

#include "graph/tensor.h"
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

}  // namespace opweld
