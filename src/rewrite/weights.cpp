#include "rewrite/weights.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "support/memory_block.h"

namespace opweld {

namespace {

Expected<Tensor> allocate_passing(DType dtype, Sizes sizes) {
  const std::int64_t bytes = num_elements(sizes) * byte_size(dtype);
  std::shared_ptr<std::byte> block = allocate_passing_block(static_cast<std::size_t>(bytes));
  if (block == nullptr) {
    return fail("out of memory: weights of {} {} need {} bytes", to_string(dtype), to_string(sizes),
                bytes);
  }
  std::byte* const data = block.get();
  return Tensor::borrow_mutable(dtype, std::move(sizes), data, std::move(block));
}

// In squares whose lines lie in the first cache together: as many elements each way as a cache line
// has of the narrower dtypes.
template <typename T>
void transpose(const std::byte* source, std::byte* target, std::int64_t rows,
               std::int64_t columns) {
  constexpr std::int64_t kSquare = 32;
  const T* const from = reinterpret_cast<const T*>(source);
  T* const to = reinterpret_cast<T*>(target);
  for (std::int64_t row = 0; row < rows; row += kSquare) {
    const std::int64_t last_row = std::min(rows, row + kSquare);
    for (std::int64_t column = 0; column < columns; column += kSquare) {
      const std::int64_t last_column = std::min(columns, column + kSquare);
      for (std::int64_t j = column; j < last_column; ++j) {
        for (std::int64_t i = row; i < last_row; ++i) to[j * rows + i] = from[i * columns + j];
      }
    }
  }
}

void transpose(DType dtype, const std::byte* from, std::byte* to, std::int64_t rows,
               std::int64_t columns) {
  switch (byte_size(dtype)) {
    case 8:
      return transpose<std::uint64_t>(from, to, rows, columns);
    case 4:
      return transpose<std::uint32_t>(from, to, rows, columns);
    case 2:
      return transpose<std::uint16_t>(from, to, rows, columns);
    default:
      assert(byte_size(dtype) == 1);
      return transpose<std::uint8_t>(from, to, rows, columns);
  }
}

}  // namespace

bool swaps_matrix_axes(const Ints& permutation) {
  const std::size_t rank = permutation.size();
  if (rank < 2) return false;
  for (std::size_t axis = 0; axis + 2 < rank; ++axis) {
    if (permutation[axis] != static_cast<std::int64_t>(axis)) return false;
  }
  return permutation[rank - 2] == static_cast<std::int64_t>(rank) - 1 &&
         permutation[rank - 1] == static_cast<std::int64_t>(rank) - 2;
}

Expected<Tensor> transposed_matrices(const Tensor& matrices) {
  Sizes sizes = matrices.sizes();
  assert(sizes.size() >= 2);
  const std::int64_t rows = sizes[sizes.size() - 2];
  const std::int64_t columns = sizes.back();
  std::swap(sizes[sizes.size() - 2], sizes.back());
  OPWELD_TRY(Tensor result, allocate_passing(matrices.dtype(), std::move(sizes)));
  const std::int64_t bytes = rows * columns * byte_size(matrices.dtype());
  for (std::int64_t at = 0; at < matrices.num_bytes(); at += bytes) {
    transpose(matrices.dtype(), matrices.data() + at, result.mutable_data() + at, rows, columns);
  }
  return result;
}

Expected<Tensor> side_by_side(std::span<const Tensor> parts) {
  const std::int64_t rows = parts.front().sizes()[0];
  std::int64_t columns = 0;
  for (const Tensor& part : parts) columns += part.sizes()[1];
  OPWELD_TRY(Tensor joined, allocate_passing(parts.front().dtype(), {rows, columns}));
  const std::int64_t element = byte_size(joined.dtype());
  std::byte* to = joined.mutable_data();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (const Tensor& part : parts) {
      const std::int64_t bytes = part.sizes()[1] * element;
      std::memcpy(to, part.data() + row * bytes, static_cast<std::size_t>(bytes));
      to += bytes;
    }
  }
  return joined;
}

}  // namespace opweld
