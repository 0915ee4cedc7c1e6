#include "runtime/pack.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "support/memory_block.h"

namespace opweld {
namespace {

// How a matrix [.., K, N] is cut into panels.
struct Panels {
  std::int64_t matrices = 1;
  std::int64_t depth = 0;                // K
  std::int64_t columns = 0;              // N, of all parts together
  std::int64_t parts = 1;                // matrices side by side
  std::int64_t part_columns = 0;         // N of one of them
  std::vector<PackedStretch> stretches;  // that repeat along N; at least one
  std::int64_t width = 0;                // columns of one part in one panel
  std::int64_t count = 0;                // panels
  bool pairs = false;
  std::int64_t padded_depth = 0;  // a multiple of what goes in pairs

  // Where element `n` of the part's columns stands in the matrix.
  [[nodiscard]] std::int64_t column(std::int64_t n, std::int64_t part) const {
    std::int64_t repeated = 0;  // columns of all stretches
    for (const PackedStretch& stretch : stretches) repeated += stretch.columns;
    std::int64_t start = n / (repeated / parts) * repeated;
    std::int64_t within = n % (repeated / parts);
    for (const PackedStretch& stretch : stretches) {
      if (within < stretch.columns / parts) {
        const std::int64_t run = stretch.run;
        return start + (within / run * parts + part) * run + within % run;
      }
      start += stretch.columns;
      within -= stretch.columns / parts;
    }
    assert(false && "stretches are made of whole parts");
    return 0;
  }
};

Panels panels_of(const Sizes& sizes, const PackedForm& form) {
  assert(sizes.size() >= 2 && form.columns > 0 && form.columns % form.parts == 0);
  Panels panels;
  for (std::size_t i = 0; i + 2 < sizes.size(); ++i) panels.matrices *= sizes[i];
  const bool transposed = form.from_transposed;
  panels.depth = sizes[sizes.size() - (transposed ? 1 : 2)];
  panels.columns = sizes[sizes.size() - (transposed ? 2 : 1)];
  panels.parts = form.parts;
  panels.part_columns = panels.columns / panels.parts;
  panels.stretches = form.stretches;
  if (panels.stretches.empty()) {
    panels.stretches = {{static_cast<int>(panels.part_columns * panels.parts),
                         static_cast<int>(panels.part_columns)}};
  }
  panels.width = form.columns / panels.parts;
  panels.count = (panels.part_columns + panels.width - 1) / panels.width;
  panels.pairs = form.in_pairs();
  const std::int64_t step = form.paired_depth;
  panels.padded_depth = (panels.depth + step - 1) / step * step;
  return panels;
}

// Neighbouring columns of the matrix that are neighbours in a panel.
struct Run {
  std::int64_t from;
  std::int64_t to;
  std::int64_t count;
};

std::vector<Run> runs_of(const Panels& panels, std::int64_t panel) {
  std::vector<Run> runs;
  const std::int64_t first = panel * panels.width;
  const std::int64_t count = std::min(panels.width, panels.part_columns - first);
  for (std::int64_t part = 0; part < panels.parts; ++part) {
    for (std::int64_t j = 0; j < count; ++j) {
      const std::int64_t from = panels.column(first + j, part);
      const std::int64_t to = part * panels.width + j;
      const bool goes_on = !runs.empty() && runs.back().from + runs.back().count == from &&
                           runs.back().to + runs.back().count == to;
      if (goes_on) {
        ++runs.back().count;
      } else {
        runs.push_back({from, to, 1});
      }
    }
  }
  return runs;
}

// How far apart two neighbours lie in a matrix, in elements.
struct Steps {
  std::int64_t row;
  std::int64_t column;
};

// One panel: [padded_depth, columns of all parts], or, in pairs, [padded_depth / 2, columns of all
// parts, 2].
void pack_panel(const std::byte* from, const Panels& panels, std::span<const Run> runs, Steps steps,
                std::int64_t element, std::byte* to) {
  const std::int64_t width = panels.width * panels.parts;
  const std::int64_t to_step = panels.pairs ? 2 : 1;
  for (std::int64_t k = 0; k < panels.depth; ++k) {
    const std::int64_t start = panels.pairs ? k / 2 * width * 2 + k % 2 : k * width;
    for (const Run& run : runs) {
      const std::byte* const row = from + (k * steps.row + run.from * steps.column) * element;
      std::byte* const place = to + (start + run.to * to_step) * element;
      if (steps.column == 1 && to_step == 1) {
        std::memcpy(place, row, static_cast<std::size_t>(run.count * element));
        continue;
      }
      for (std::int64_t j = 0; j < run.count; ++j) {
        std::memcpy(place + j * to_step * element, row + j * steps.column * element,
                    static_cast<std::size_t>(element));
      }
    }
  }
}

}  // namespace

Sizes packed_sizes(const Sizes& matrix, const PackedForm& form) {
  const Panels panels = panels_of(matrix, form);
  Sizes sizes(matrix.begin(), matrix.end() - 2);
  const std::int64_t group = panels.pairs ? 2 : 1;
  sizes.insert(sizes.end(), {panels.count, panels.padded_depth / group, form.columns * group});
  return sizes;
}

void pack_panels(const Tensor& matrix, const PackedForm& form, Tensor& packed) {
  const Panels panels = panels_of(matrix.sizes(), form);
  assert(packed.sizes() == packed_sizes(matrix.sizes(), form) && packed.dtype() == matrix.dtype());
  const bool transposed = form.from_transposed;
  const std::int64_t row_step = transposed ? 1 : panels.columns;
  const std::int64_t column_step = transposed ? panels.depth : 1;
  const std::int64_t element = byte_size(matrix.dtype());
  const std::int64_t matrix_bytes = panels.depth * panels.columns * element;
  const std::int64_t panel_bytes = panels.padded_depth * form.columns * element;
  for (std::int64_t panel = 0; panel < panels.count; ++panel) {
    const std::vector<Run> runs = runs_of(panels, panel);
    for (std::int64_t m = 0; m < panels.matrices; ++m) {
      pack_panel(matrix.data() + m * matrix_bytes, panels, runs, {row_step, column_step}, element,
                 packed.mutable_data() + (m * panels.count + panel) * panel_bytes);
    }
  }
}

namespace {

// One packed form, and the constants that take it.
struct Packing {
  const PackedForm* form;
  Tensor matrix;
  Sizes sizes;
  std::int64_t offset;  // in the block of all
  std::vector<Tensor*> takers;

  [[nodiscard]] bool serves(const Tensor& wanted, const PackedForm& wanted_form) const {
    return matrix.data() == wanted.data() && matrix.sizes() == wanted.sizes() &&
           *form == wanted_form;
  }
};

}  // namespace

Status pack_constants(std::span<PlanVersion> versions) {
  std::vector<Packing> packings;
  std::int64_t bytes = 0;
  std::int64_t most = 0;
  std::string largest;  // for an error
  const auto add = [&](ExecutableKernel& kernel, const Kernel& planned) {
    for (auto& constant : kernel.constants) {
      const PackedForm& form = constant.form;
      if (form.columns == 0) continue;
      auto packing = std::find_if(packings.begin(), packings.end(), [&](const Packing& other) {
        return other.serves(constant.value, form);
      });
      if (packing == packings.end()) {
        Sizes sizes = packed_sizes(constant.value.sizes(), form);
        const std::int64_t size = num_elements(sizes) * byte_size(constant.value.dtype());
        packing = packings.insert(packing, {&form, constant.value, std::move(sizes), bytes, {}});
        if (size > most) {
          most = size;
          largest = fmt::format("{}{} of {} ({})", to_string(constant.value.dtype()),
                                to_string(constant.value.sizes()), planned.name, planned.label);
        }
        constexpr auto kUnit = static_cast<std::int64_t>(kBlockAlignment);
        bytes += (size + kUnit - 1) / kUnit * kUnit;
      }
      packing->takers.push_back(&constant.value);
    }
  };
  for (auto& [plan, kernels] : versions) {
    for (std::size_t i = 0; i < kernels.size(); ++i) add(kernels[i], plan.kernels[i]);
  }
  if (packings.empty()) return {};

  const std::shared_ptr<std::byte> block = allocate_block(static_cast<std::size_t>(bytes));
  if (block == nullptr) {
    return fail(
        "out of memory: the packed weights need {} bytes; the largest is {}. A machine with more "
        "memory holds them, or the model with weights of a narrower type",
        bytes, largest);
  }
  for (Packing& packing : packings) {
    Tensor packed = Tensor::borrow_mutable(packing.matrix.dtype(), std::move(packing.sizes),
                                           block.get() + packing.offset, block);
    pack_panels(packing.matrix, *packing.form, packed);
    packing.matrix = Tensor();
    for (Tensor* taker : packing.takers) *taker = packed;
  }
  return {};
}

}  // namespace opweld
