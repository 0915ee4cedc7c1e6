#include "ops/matrix_product.h"

#include <algorithm>
#include <vector>

namespace opweld {
namespace {

std::vector<double> to_doubles(const Tensor& tensor, std::int64_t first, std::int64_t count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    values[static_cast<std::size_t>(i)] = tensor.get_double(first + i);
  }
  return values;
}

// Columns [first, first + width) of b, row after row.
std::vector<double> panel_of(const MatrixProduct& product, std::int64_t first, std::int64_t width) {
  std::vector<double> panel;
  panel.reserve(static_cast<std::size_t>(product.depth * width));
  for (std::int64_t k = 0; k < product.depth; ++k) {
    for (std::int64_t n = 0; n < width; ++n) {
      panel.push_back(product.b->get_double(product.b_first + k * product.columns + first + n));
    }
  }
  return panel;
}

// Panel by panel, so that models of real size are evaluated in bearable time.
void multiply_floats(const MatrixProduct& product) {
  constexpr std::int64_t kPanel = 64;
  const auto a = to_doubles(*product.a, product.a_first, product.rows * product.depth);
  for (std::int64_t first = 0; first < product.columns; first += kPanel) {
    const std::int64_t width = std::min(kPanel, product.columns - first);
    const auto panel = panel_of(product, first, width);
    for (std::int64_t m = 0; m < product.rows; ++m) {
      double sums[kPanel] = {};
      for (std::int64_t k = 0; k < product.depth; ++k) {
        const double factor = a[static_cast<std::size_t>(m * product.depth + k)];
        const double* row = panel.data() + k * width;
        for (std::int64_t n = 0; n < width; ++n) sums[n] += factor * row[n];
      }
      for (std::int64_t n = 0; n < width; ++n) {
        if (product.bias != nullptr) {
          sums[n] += product.bias->get_double(product.bias_first + first + n);
        }
        product.result->set_double(product.result_first + m * product.columns + first + n, sums[n]);
      }
    }
  }
}

void multiply_integers(const MatrixProduct& product) {
  const auto element = [](const Tensor& tensor, std::int64_t at) {
    return static_cast<std::uint64_t>(tensor.get_int(at));
  };
  for (std::int64_t m = 0; m < product.rows; ++m) {
    for (std::int64_t n = 0; n < product.columns; ++n) {
      std::uint64_t sum =
          product.bias == nullptr ? 0 : element(*product.bias, product.bias_first + n);
      for (std::int64_t k = 0; k < product.depth; ++k) {
        sum += element(*product.a, product.a_first + m * product.depth + k) *
               element(*product.b, product.b_first + k * product.columns + n);
      }
      product.result->set_int(product.result_first + m * product.columns + n,
                              static_cast<std::int64_t>(sum));
    }
  }
}

}  // namespace

void multiply(const MatrixProduct& product) {
  if (is_float(product.result->dtype())) {
    multiply_floats(product);
  } else {
    multiply_integers(product);
  }
}

}  // namespace opweld
