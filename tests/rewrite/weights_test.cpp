// Weights on their way to be packed, against the definition, element by element.
#include "rewrite/weights.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace opweld {
namespace {

constexpr std::int64_t kSizes[] = {1, 3, 7, 8, 15, 16, 17, 31, 32, 33, 65};

std::int64_t bits(const Tensor& tensor, std::int64_t index) {
  std::int64_t result = 0;
  const auto size = static_cast<std::size_t>(byte_size(tensor.dtype()));
  std::memcpy(&result, tensor.data() + index * byte_size(tensor.dtype()), size);
  return result;
}

// Every byte pattern occurs, NaN with payloads among them.
Tensor patterns(DType dtype, const Sizes& sizes) {
  Tensor tensor = Tensor::allocate(dtype, sizes).value();
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < tensor.num_bytes(); ++i) {
    state = state * 1664525 + 1013904223;
    tensor.mutable_data()[i] = static_cast<std::byte>(state >> 24);
  }
  return tensor;
}

TEST(Weights, SwapsOfMatrixAxesAreKnown) {
  EXPECT_TRUE(swaps_matrix_axes({1, 0}));
  EXPECT_TRUE(swaps_matrix_axes({0, 2, 1}));
  EXPECT_TRUE(swaps_matrix_axes({0, 1, 3, 2}));
  for (const Ints& other : {Ints{}, Ints{0}, Ints{0, 1}, Ints{1, 0, 2}, Ints{2, 1, 0},
                            Ints{1, 2, 0}, Ints{1, 0, 3, 2}}) {
    EXPECT_FALSE(swaps_matrix_axes(other));
  }
}

TEST(Weights, TransposedAtEveryTailAndWidth) {
  for (const DType dtype : {DType::F64, DType::F32, DType::F16, DType::BF16, DType::I8}) {
    for (const std::int64_t rows : kSizes) {
      for (const std::int64_t columns : kSizes) {
        const Tensor matrices = patterns(dtype, {2, rows, columns});
        const Tensor transposed = transposed_matrices(matrices).value();
        ASSERT_EQ(transposed.sizes(), (Sizes{2, columns, rows}));
        ASSERT_EQ(transposed.dtype(), dtype);
        for (std::int64_t at = 0; at < matrices.num_elements(); ++at) {
          const std::int64_t matrix = at / (rows * columns);
          const std::int64_t row = at / columns % rows;
          const std::int64_t column = at % columns;
          ASSERT_EQ(bits(transposed, (matrix * columns + column) * rows + row), bits(matrices, at))
              << rows << " x " << columns;
        }
      }
    }
  }
}

TEST(Weights, WithoutElementsAreTransposedToo) {
  for (const Sizes& sizes : {Sizes{0, 3, 4}, Sizes{2, 0, 4}, Sizes{2, 3, 0}}) {
    const Tensor transposed = transposed_matrices(patterns(DType::F32, sizes)).value();
    EXPECT_EQ(transposed.sizes(), (Sizes{sizes[0], sizes[2], sizes[1]}));
  }
}

TEST(Weights, StandSideBySide) {
  for (const std::int64_t rows : {1, 2, 17}) {
    const std::vector<Tensor> parts = {patterns(DType::BF16, {rows, 3}),
                                       patterns(DType::BF16, {rows, 1}),
                                       patterns(DType::BF16, {rows, 16})};
    const Tensor joined = side_by_side(parts).value();
    ASSERT_EQ(joined.sizes(), (Sizes{rows, 20}));
    for (std::int64_t row = 0; row < rows; ++row) {
      std::int64_t column = 0;
      for (const Tensor& part : parts) {
        for (std::int64_t i = 0; i < part.sizes()[1]; ++i, ++column) {
          ASSERT_EQ(bits(joined, row * 20 + column), bits(part, row * part.sizes()[1] + i));
        }
      }
    }
  }
}

}  // namespace
}  // namespace opweld
