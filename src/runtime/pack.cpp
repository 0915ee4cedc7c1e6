#include "runtime/pack.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>
#include <vector>

#include "support/memory_block.h"

namespace opweld {
namespace {

// How a matrix [.., K, N] is cut into panels.
struct Panels {
  std::int64_t matrices = 1;
  std::int64_t depth = 0;         // K
  std::int64_t columns = 0;       // N, of all parts together
  std::int64_t parts = 1;         // matrices side by side
  std::int64_t part_columns = 0;  // N of one of them, or of the parts of one kind in all heads
  std::int64_t head_columns =
      0;                   // of one part of one head; of a matrix without heads, part_columns
  std::int64_t width = 0;  // columns of one part in one panel
  std::int64_t count = 0;  // panels
  bool pairs = false;
  std::int64_t padded_depth = 0;  // a multiple of what goes in pairs

  // The first of a panel's columns of that part in the matrix.
  [[nodiscard]] std::int64_t first_column(std::int64_t panel, std::int64_t part) const {
    const std::int64_t head = panel * width / head_columns;
    const std::int64_t within = panel * width % head_columns;
    return (head * parts + part) * head_columns + within;
  }
};

Panels panels_of(const Sizes& sizes, const tile::Param& param) {
  assert(sizes.size() >= 2 && param.packed_columns > 0 &&
         param.packed_columns % param.packed_parts == 0);
  Panels panels;
  for (std::size_t i = 0; i + 2 < sizes.size(); ++i) panels.matrices *= sizes[i];
  const bool transposed = param.packed_from_transposed;
  panels.depth = sizes[sizes.size() - (transposed ? 1 : 2)];
  panels.columns = sizes[sizes.size() - (transposed ? 2 : 1)];
  panels.parts = param.packed_parts;
  panels.part_columns = panels.columns / panels.parts;
  panels.head_columns =
      param.packed_head > 0 ? param.packed_head / panels.parts : panels.part_columns;
  panels.width = param.packed_columns / panels.parts;
  assert(param.packed_head == 0 || panels.head_columns % panels.width == 0);
  panels.count = (panels.part_columns + panels.width - 1) / panels.width;
  panels.pairs = param.packed_pairs;
  constexpr std::int64_t kStep = tile::kMatrixDepth;
  panels.padded_depth = panels.pairs ? (panels.depth + kStep - 1) / kStep * kStep : panels.depth;
  return panels;
}

// How far apart two neighbours lie in a matrix, in elements.
struct Steps {
  std::int64_t row;
  std::int64_t column;
};

// One matrix, panels of [padded_depth / 2, columns of all parts, 2].
void pack_pairs(const std::byte* from, const Panels& panels, Steps steps, std::int64_t element,
                std::byte* to) {
  const std::int64_t panel_columns = panels.width * panels.parts;
  const std::int64_t panel_bytes = panels.padded_depth * panel_columns * element;
  for (std::int64_t panel = 0; panel < panels.count; ++panel, to += panel_bytes) {
    const std::int64_t count = std::min(panels.width, panels.part_columns - panel * panels.width);
    for (std::int64_t k = 0; k < panels.depth; ++k) {
      for (std::int64_t part = 0; part < panels.parts; ++part) {
        const std::byte* const row =
            from + (k * steps.row + panels.first_column(panel, part) * steps.column) * element;
        std::byte* const pairs =
            to + ((k / 2 * panel_columns + part * panels.width) * 2 + k % 2) * element;
        for (std::int64_t j = 0; j < count; ++j) {
          std::memcpy(pairs + 2 * j * element, row + j * steps.column * element,
                      static_cast<std::size_t>(element));
        }
      }
    }
  }
}

}  // namespace

Sizes packed_sizes(const Sizes& matrix, const tile::Param& param) {
  const Panels panels = panels_of(matrix, param);
  Sizes sizes(matrix.begin(), matrix.end() - 2);
  const std::int64_t group = panels.pairs ? 2 : 1;
  sizes.insert(sizes.end(),
               {panels.count, panels.padded_depth / group, param.packed_columns * group});
  return sizes;
}

void pack_panels(const Tensor& matrix, const tile::Param& param, Tensor& packed) {
  const Panels panels = panels_of(matrix.sizes(), param);
  assert(packed.sizes() == packed_sizes(matrix.sizes(), param) && packed.dtype() == matrix.dtype());
  const bool transposed = param.packed_from_transposed;
  const std::int64_t row_step = transposed ? 1 : panels.columns;
  const std::int64_t column_step = transposed ? panels.depth : 1;
  const std::int64_t element = byte_size(matrix.dtype());
  std::byte* to = packed.mutable_data();
  if (panels.pairs) {
    const std::int64_t packed_bytes =
        panels.count * panels.padded_depth * param.packed_columns * element;
    for (std::int64_t m = 0; m < panels.matrices; ++m) {
      pack_pairs(matrix.data() + m * panels.depth * panels.columns * element, panels,
                 {row_step, column_step}, element, to + m * packed_bytes);
    }
    return;
  }
  for (std::int64_t m = 0; m < panels.matrices; ++m) {
    const std::byte* from = matrix.data() + m * panels.depth * panels.columns * element;
    for (std::int64_t panel = 0; panel < panels.count; ++panel) {
      const std::int64_t count = std::min(panels.width, panels.part_columns - panel * panels.width);
      for (std::int64_t row_part = 0; row_part < panels.depth * panels.parts;
           ++row_part, to += panels.width * element) {
        const std::int64_t k = row_part / panels.parts;
        const std::int64_t first = panels.first_column(panel, row_part % panels.parts);
        const std::byte* row = from + (k * row_step + first * column_step) * element;
        if (column_step == 1) {
          std::memcpy(to, row, static_cast<std::size_t>(count * element));
          continue;
        }
        for (std::int64_t j = 0; j < count; ++j) {
          std::memcpy(to + j * element, row + j * column_step * element,
                      static_cast<std::size_t>(element));
        }
      }
    }
  }
}

namespace {

// One packed form, and the constants that take it.
struct Packing {
  const tile::Param* param;
  Tensor matrix;
  Sizes sizes;
  std::int64_t offset;  // in the block of all
  std::vector<Tensor*> takers;

  [[nodiscard]] bool serves(const Tensor& wanted, const tile::Param& wanted_param) const {
    return matrix.data() == wanted.data() && matrix.sizes() == wanted.sizes() &&
           param->packed_columns == wanted_param.packed_columns &&
           param->packed_parts == wanted_param.packed_parts &&
           param->packed_head == wanted_param.packed_head &&
           param->packed_pairs == wanted_param.packed_pairs &&
           param->packed_from_transposed == wanted_param.packed_from_transposed;
  }
};

}  // namespace

Status pack_constants(std::span<PlanVersion> versions) {
  std::vector<Packing> packings;
  std::int64_t bytes = 0;
  const auto add = [&](ExecutableKernel& kernel) {
    for (auto& constant : kernel.constants) {
      const tile::Param& param = kernel.program.params[static_cast<std::size_t>(constant.param)];
      if (param.packed_columns == 0) continue;
      auto packing = std::find_if(packings.begin(), packings.end(), [&](const Packing& other) {
        return other.serves(constant.value, param);
      });
      if (packing == packings.end()) {
        Sizes sizes = packed_sizes(constant.value.sizes(), param);
        const std::int64_t size = num_elements(sizes) * byte_size(constant.value.dtype());
        packing = packings.insert(packing, {&param, constant.value, std::move(sizes), bytes, {}});
        constexpr auto kUnit = static_cast<std::int64_t>(kBlockAlignment);
        bytes += (size + kUnit - 1) / kUnit * kUnit;
      }
      packing->takers.push_back(&constant.value);
    }
  };
  for (PlanVersion& version : versions) std::ranges::for_each(version.kernels, add);
  if (packings.empty()) return {};

  const std::shared_ptr<std::byte> block = allocate_block(static_cast<std::size_t>(bytes));
  if (block == nullptr) return fail("out of memory: the packed weights need {} bytes", bytes);
  for (Packing& packing : packings) {
    Tensor packed = Tensor::borrow_mutable(packing.matrix.dtype(), std::move(packing.sizes),
                                           block.get() + packing.offset, block);
    pack_panels(packing.matrix, *packing.param, packed);
    packing.matrix = Tensor();
    for (Tensor* taker : packing.takers) *taker = packed;
  }
  return {};
}

}  // namespace opweld
