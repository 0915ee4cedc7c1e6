#include "runtime/pack.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace opweld {

Expected<Tensor> pack_panels(const Tensor& matrix, const tile::Param& param) {
  const Sizes& sizes = matrix.sizes();
  const std::int64_t parts = param.packed_parts;
  assert(sizes.size() >= 2 && param.packed_columns > 0 && param.packed_columns % parts == 0);
  const bool transposed = param.packed_from_transposed;
  const std::int64_t depth = sizes[sizes.size() - (transposed ? 1 : 2)];
  const std::int64_t columns = sizes[sizes.size() - (transposed ? 2 : 1)];
  const std::int64_t part_columns = columns / parts;
  const std::int64_t width = param.packed_columns / parts;  // of a part in a panel
  const std::int64_t panels = (part_columns + width - 1) / width;
  const std::int64_t row_step = transposed ? 1 : columns;
  const std::int64_t column_step = transposed ? depth : 1;
  Sizes packed_sizes(sizes.begin(), sizes.end() - 2);
  std::int64_t matrices = 1;
  for (const std::int64_t size : packed_sizes) matrices *= size;
  packed_sizes.insert(packed_sizes.end(), {panels, depth, param.packed_columns});
  OPWELD_TRY(Tensor packed, Tensor::allocate(matrix.dtype(), packed_sizes));

  const std::int64_t element = byte_size(matrix.dtype());
  std::byte* to = packed.mutable_data();
  for (std::int64_t m = 0; m < matrices; ++m) {
    const std::byte* from = matrix.data() + m * depth * columns * element;
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      const std::int64_t count = std::min(width, part_columns - panel * width);
      for (std::int64_t row_part = 0; row_part < depth * parts; ++row_part, to += width * element) {
        const std::int64_t k = row_part / parts;
        const std::int64_t first = row_part % parts * part_columns + panel * width;
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
  return packed;
}

}  // namespace opweld
