// Loops over the elements of tensors for reference evaluation: plain, and exact for every dtype.
#pragma once

#include <cassert>
#include <cstdint>
#include <cstring>

#include "graph/tensor.h"

namespace opweld {

// Elements between neighbours along each axis of a dense row-major tensor.
inline Sizes row_major_strides(const Sizes& sizes) {
  Sizes strides(sizes.size());
  std::int64_t stride = 1;
  for (std::size_t axis = sizes.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= sizes[axis];
  }
  return strides;
}

// Calls visit(position, offset) for every index over `sizes` in row-major order: position counts
// 0, 1, 2 ..., offset is base + sum(index[axis] * strides[axis]).
template <typename Visit>
void walk(const Sizes& sizes, const Sizes& strides, std::int64_t base, const Visit& visit) {
  assert(sizes.size() == strides.size());
  for (const std::int64_t size : sizes) {
    if (size == 0) return;
  }
  Sizes index(sizes.size(), 0);
  std::int64_t offset = base;
  for (std::int64_t position = 0;; ++position) {
    visit(position, offset);
    std::size_t axis = sizes.size();
    for (; axis > 0; --axis) {  // odometer: the last axis turns fastest
      const std::size_t wheel = axis - 1;
      offset += strides[wheel];
      if (++index[wheel] < sizes[wheel]) break;
      offset -= sizes[wheel] * strides[wheel];
      index[wheel] = 0;
    }
    if (axis == 0) return;
  }
}

// Calls visit(position, index) for every index over `sizes` in row-major order.
template <typename Visit>
void for_each_index(const Sizes& sizes, const Visit& visit) {
  Sizes index(sizes.size(), 0);
  const std::int64_t count = num_elements(sizes);
  for (std::int64_t position = 0; position < count; ++position) {
    visit(position, index);
    for (std::size_t axis = sizes.size(); axis-- > 0;) {
      if (++index[axis] < sizes[axis]) break;
      index[axis] = 0;
    }
  }
}

// Copies elements as bytes, so that NaN payloads and signs of zero survive.
class ElementMover {
 public:
  ElementMover(Tensor& to, const Tensor& from)
      : to_(to.mutable_data()), from_(from.data()), element_bytes_(byte_size(to.dtype())) {
    assert(to.dtype() == from.dtype());
  }

  // `count` consecutive elements; positions are linear, row-major.
  void operator()(std::int64_t to, std::int64_t from, std::int64_t count = 1) const {
    if (count == 0) return;
    std::memcpy(to_ + to * element_bytes_, from_ + from * element_bytes_,
                static_cast<std::size_t>(count * element_bytes_));
  }

 private:
  std::byte* to_;
  const std::byte* from_;
  std::int64_t element_bytes_;
};

// A tensor seen as [outer, length, inner] around one axis.
struct AxisSplit {
  std::int64_t outer = 1;
  std::int64_t length = 1;
  std::int64_t inner = 1;

  AxisSplit(const Sizes& sizes, std::size_t axis) : length(sizes[axis]) {
    for (std::size_t i = 0; i < axis; ++i) outer *= sizes[i];
    for (std::size_t i = axis + 1; i < sizes.size(); ++i) inner *= sizes[i];
  }
};

}  // namespace opweld
