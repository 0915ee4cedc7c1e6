// Packed panels against a plain loop over the definition.
#include "runtime/pack.h"

#include <gtest/gtest.h>

namespace opweld {
namespace {

// Every element different and none zero.
Tensor numbered(DType dtype, const Sizes& sizes) {
  Tensor tensor = Tensor::allocate(dtype, sizes).value();
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.set_double(i, static_cast<double>(i + 1));
  }
  return tensor;
}

// [batch, K, N], or [batch, N, K] when transposed.
void expect_packed(DType dtype, std::int64_t batch, std::int64_t depth, std::int64_t columns,
                   int width, bool transposed) {
  SCOPED_TRACE(fmt::format("{} x {} x {} in panels of {}{}", batch, depth, columns, width,
                           transposed ? ", transposed" : ""));
  const Sizes sizes = transposed ? Sizes{batch, columns, depth} : Sizes{batch, depth, columns};
  const Tensor matrix = numbered(dtype, sizes);
  tile::Param param;
  param.packed_columns = width;
  param.packed_from_transposed = transposed;
  const auto packed = pack_panels(matrix, param);
  ASSERT_TRUE(packed) << packed.error().message;
  const std::int64_t panels = (columns + width - 1) / width;
  ASSERT_EQ(packed->sizes(), (Sizes{batch, panels, depth, width}));
  ASSERT_EQ(packed->dtype(), dtype);
  std::int64_t at = 0;
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      for (std::int64_t k = 0; k < depth; ++k) {
        for (std::int64_t j = 0; j < width; ++j, ++at) {
          const std::int64_t n = panel * width + j;
          double expected = 0;
          if (n < columns) {
            const std::int64_t place =
                transposed ? (b * columns + n) * depth + k : (b * depth + k) * columns + n;
            expected = matrix.get_double(place);
          }
          ASSERT_EQ(packed->get_double(at), expected)
              << "batch " << b << ", depth " << k << ", column " << n;
        }
      }
    }
  }
}

TEST(Pack, PanelsAtEveryTail) {
  for (const bool transposed : {false, true}) {
    for (const std::int64_t columns : {1, 3, 7, 8, 15, 16, 17, 31, 33}) {
      for (const std::int64_t depth : {1, 5, 16}) {
        expect_packed(DType::F32, 1, depth, columns, 16, transposed);
        expect_packed(DType::F32, 3, depth, columns, 8, transposed);
      }
    }
  }
}

// Panel p holds columns [p w, (p + 1) w) of each part, side by side.
TEST(Pack, PartsShareEachPanel) {
  for (const std::int64_t columns : {1, 3, 4, 7, 8, 9}) {
    constexpr std::int64_t kDepth = 3;
    constexpr std::int64_t kWidth = 4;
    const Tensor matrix = numbered(DType::F32, {kDepth, 2 * columns});
    tile::Param param;
    param.packed_columns = 2 * kWidth;
    param.packed_parts = 2;
    const auto packed = pack_panels(matrix, param);
    ASSERT_TRUE(packed) << packed.error().message;
    const std::int64_t panels = (columns + kWidth - 1) / kWidth;
    ASSERT_EQ(packed->sizes(), (Sizes{panels, kDepth, 2 * kWidth}));
    for (std::int64_t at = 0; at < packed->num_elements(); ++at) {
      const std::int64_t j = at % (2 * kWidth);
      const std::int64_t k = at / (2 * kWidth) % kDepth;
      const std::int64_t n = at / (2 * kWidth * kDepth) * kWidth + j % kWidth;
      const std::int64_t place = (2 * k + j / kWidth) * columns + n;
      ASSERT_EQ(packed->get_double(at), n < columns ? matrix.get_double(place) : 0)
          << columns << " columns, element " << at;
    }
  }
}

TEST(Pack, ElementsOfEveryWidth) {
  for (const DType dtype : {DType::F64, DType::F16, DType::BF16, DType::I8}) {
    expect_packed(dtype, 2, 3, 17, 16, false);
    expect_packed(dtype, 2, 3, 17, 16, true);
  }
}

TEST(Pack, EmptyMatricesHaveEmptyPanels) {
  for (const bool transposed : {false, true}) {
    expect_packed(DType::F32, 2, 0, 17, 16, transposed);
    expect_packed(DType::F32, 2, 5, 0, 16, transposed);
    expect_packed(DType::F32, 0, 5, 17, 16, transposed);
  }
}

}  // namespace
}  // namespace opweld
