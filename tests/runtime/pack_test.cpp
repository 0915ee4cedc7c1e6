// Packed panels against a plain loop over the definition.
#include "runtime/pack.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

#include "support/memory_block.h"

namespace opweld {
namespace {

constexpr int kPairedDepth = 32;

// Every element different and none zero.
Tensor numbered(DType dtype, const Sizes& sizes) {
  Tensor tensor = Tensor::allocate(dtype, sizes).value();
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.set_double(i, static_cast<double>(i + 1));
  }
  return tensor;
}

Tensor pack(const Tensor& matrix, const PackedForm& form) {
  Tensor packed = Tensor::allocate(matrix.dtype(), packed_sizes(matrix.sizes(), form)).value();
  pack_panels(matrix, form, packed);
  return packed;
}

// [batch, K, N], or [batch, N, K] when transposed.
void expect_packed(DType dtype, std::int64_t batch, std::int64_t depth, std::int64_t columns,
                   int width, bool transposed) {
  SCOPED_TRACE(fmt::format("{} x {} x {} in panels of {}{}", batch, depth, columns, width,
                           transposed ? ", transposed" : ""));
  const Sizes sizes = transposed ? Sizes{batch, columns, depth} : Sizes{batch, depth, columns};
  const Tensor matrix = numbered(dtype, sizes);
  PackedForm form;
  form.columns = width;
  form.from_transposed = transposed;
  const Tensor packed = pack(matrix, form);
  const std::int64_t panels = (columns + width - 1) / width;
  ASSERT_EQ(packed.sizes(), (Sizes{batch, panels, depth, width}));
  ASSERT_EQ(packed.dtype(), dtype);
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
          ASSERT_EQ(packed.get_double(at), expected)
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
    PackedForm form;
    form.columns = 2 * kWidth;
    form.parts = 2;
    const Tensor packed = pack(matrix, form);
    const std::int64_t panels = (columns + kWidth - 1) / kWidth;
    ASSERT_EQ(packed.sizes(), (Sizes{panels, kDepth, 2 * kWidth}));
    for (std::int64_t at = 0; at < packed.num_elements(); ++at) {
      const std::int64_t j = at % (2 * kWidth);
      const std::int64_t k = at / (2 * kWidth) % kDepth;
      const std::int64_t n = at / (2 * kWidth * kDepth) * kWidth + j % kWidth;
      const std::int64_t place = (2 * k + j / kWidth) * columns + n;
      ASSERT_EQ(packed.get_double(at), n < columns ? matrix.get_double(place) : 0)
          << columns << " columns, element " << at;
    }
  }
}

// Stretches of a head, whose parts take turns in runs; panels end wherever they end.
TEST(Pack, StretchesOfHeads) {
  using Stretches = std::vector<PackedStretch>;
  constexpr std::int64_t kDepth = 3;
  constexpr std::int64_t kParts = 2;
  for (const Stretches& stretches :
       {Stretches{{6, 3}}, Stretches{{6, 1}}, Stretches{{4, 1}, {2, 1}}, Stretches{{4, 2}, {6, 3}},
        Stretches{{8, 2}, {2, 1}}}) {
    // The columns of a head in the order of its elements, and in each the parts.
    std::vector<std::int64_t> order;
    std::int64_t head = 0;
    for (const auto& [columns, run] : stretches) {
      for (std::int64_t turn = 0; turn < columns / (kParts * run); ++turn) {
        for (std::int64_t i = 0; i < run; ++i) {
          for (std::int64_t part = 0; part < kParts; ++part) {
            order.push_back(head + (turn * kParts + part) * run + i);
          }
        }
      }
      head += columns;
    }
    for (const std::int64_t heads : {1, 3}) {
      for (const std::int64_t width : {2, 4}) {
        const Tensor matrix = numbered(DType::F32, {kDepth, heads * head});
        PackedForm form;
        form.columns = static_cast<int>(kParts * width);
        form.parts = kParts;
        form.stretches = stretches;
        const Tensor packed = pack(matrix, form);
        const std::int64_t elements = heads * head / kParts;
        const std::int64_t panels = (elements + width - 1) / width;
        ASSERT_EQ(packed.sizes(), (Sizes{panels, kDepth, kParts * width}));
        for (std::int64_t at = 0; at < packed.num_elements(); ++at) {
          const std::int64_t part = at / width % kParts;
          const std::int64_t k = at / (kParts * width) % kDepth;
          const std::int64_t n = at / (kParts * width * kDepth) * width + at % width;
          const std::int64_t place = n * kParts + part;  // in the order of all heads
          double expected = 0;
          if (n < elements) {
            const std::int64_t column =
                place / head * head + order[static_cast<std::size_t>(place % head)];
            expected = matrix.get_double(k * heads * head + column);
          }
          ASSERT_EQ(packed.get_double(at), expected) << "element " << at;
        }
      }
    }
  }
}

// Pairs of depth, padded to whole matrices: panel p holds columns [p w, (p + 1) w) of each part.
TEST(Pack, PairsOfDepthAtEveryTail) {
  constexpr std::int64_t kBatch = 2;
  constexpr std::int64_t kWidth = 8;
  for (const bool transposed : {false, true}) {
    for (const std::int64_t parts : {1, 2}) {
      for (const std::int64_t part_columns : {1, 3, 4, 5, 8, 9, 33}) {
        for (const std::int64_t depth : {0, 1, 2, 5, 31, 32, 33, 64}) {
          const std::int64_t columns = parts * part_columns;
          const std::int64_t width = kWidth / parts;
          const Tensor matrix = numbered(DType::F32, transposed ? Sizes{kBatch, columns, depth}
                                                                : Sizes{kBatch, depth, columns});
          PackedForm form;
          form.columns = kWidth;
          form.parts = static_cast<int>(parts);
          form.paired_depth = kPairedDepth;
          form.from_transposed = transposed;
          const Tensor packed = pack(matrix, form);
          const std::int64_t panels = (part_columns + width - 1) / width;
          const std::int64_t pairs = (depth + 31) / 32 * 16;
          ASSERT_EQ(packed.sizes(), (Sizes{kBatch, panels, pairs, 2 * kWidth}));
          for (std::int64_t at = 0; at < packed.num_elements(); ++at) {
            const std::int64_t j = at / 2 % kWidth;
            const std::int64_t k = at / (2 * kWidth) % pairs * 2 + at % 2;
            const std::int64_t panel = at / (2 * kWidth * pairs);
            const std::int64_t b = panel / panels;
            const std::int64_t n = panel % panels * width + j % width;
            const std::int64_t column = j / width * part_columns + n;
            const std::int64_t place = transposed ? (b * columns + column) * depth + k
                                                  : (b * depth + k) * columns + column;
            const bool inside = n < part_columns && k < depth;
            ASSERT_EQ(packed.get_double(at), inside ? matrix.get_double(place) : 0)
                << depth << " x " << parts << " * " << part_columns << ", element " << at;
          }
        }
      }
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

// A kernel that wants `matrix` packed in this form.
ExecutableKernel kernel_with(const Tensor& matrix, const PackedForm& form) {
  ExecutableKernel kernel;
  kernel.constants.push_back({.value = matrix, .form = form});
  return kernel;
}

TEST(PackConstants, SharesWhatIsTheSameAndNothingElse) {
  const Tensor matrix = numbered(DType::F32, {6, 8});
  PackedForm panels;
  panels.columns = 4;
  PackedForm wide = panels;
  wide.columns = 8;
  PackedForm pair = panels;
  pair.parts = 2;
  PackedForm heads = pair;
  heads.stretches = {{4, 1}};
  PackedForm transposed = panels;
  transposed.from_transposed = true;
  PackedForm in_pairs = panels;
  in_pairs.paired_depth = kPairedDepth;
  const PackedForm as_it_is;

  std::vector<PlanVersion> versions(1);
  std::vector<ExecutableKernel>& kernels = versions[0].kernels;
  for (const PackedForm& form : {panels, wide, pair, transposed, panels, as_it_is}) {
    kernels.push_back(kernel_with(matrix, form));
  }
  // Of the same bytes, but another matrix.
  kernels.push_back(kernel_with(matrix.reshaped({8, 6}), panels));
  kernels.push_back(kernel_with(matrix, in_pairs));
  kernels.push_back(kernel_with(matrix, heads));
  versions[0].plan.kernels.resize(kernels.size());
  ASSERT_TRUE(pack_constants(versions));

  const auto value = [&](std::size_t i) -> const Tensor& { return kernels[i].constants[0].value; };
  EXPECT_EQ(value(0).data(), value(4).data());
  EXPECT_EQ(value(5).data(), matrix.data());
  std::set<const std::byte*> places;
  for (const std::size_t i : {0, 1, 2, 3, 5, 6, 7, 8}) places.insert(value(i).data());
  EXPECT_EQ(places.size(), 8U);

  for (const std::size_t i : {0, 1, 2, 3, 4, 6, 7, 8}) {
    SCOPED_TRACE(i);
    const Tensor given = i == 6 ? matrix.reshaped({8, 6}) : matrix;
    const Tensor expected = pack(given, kernels[i].constants[0].form);
    ASSERT_EQ(value(i).sizes(), expected.sizes());
    EXPECT_EQ(std::memcmp(value(i).data(), expected.data(),
                          static_cast<std::size_t>(expected.num_bytes())),
              0);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(value(i).data()) % kBlockAlignment, 0U);
  }
}

TEST(PackConstants, OfNoColumnsOrNoDepthIsEmpty) {
  PackedForm panels;
  panels.columns = 4;
  std::vector<PlanVersion> versions(1);
  std::vector<ExecutableKernel>& kernels = versions[0].kernels;
  kernels.push_back(kernel_with(numbered(DType::F32, {3, 0}), panels));
  kernels.push_back(kernel_with(numbered(DType::F32, {0, 5}), panels));
  ASSERT_TRUE(pack_constants(versions));
  EXPECT_EQ(kernels[0].constants[0].value.sizes(), (Sizes{0, 3, 4}));
  EXPECT_EQ(kernels[1].constants[0].value.sizes(), (Sizes{2, 0, 4}));
}

}  // namespace
}  // namespace opweld
