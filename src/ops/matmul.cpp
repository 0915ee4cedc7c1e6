// matmul: products of matrices, over broadcast batches.
#include <algorithm>

#include "ops/broadcast.h"
#include "ops/families.h"
#include "ops/infer_helpers.h"

namespace opweld {
namespace {

Expected<std::vector<TensorType>> infer_matmul(const OpContext& context) {
  OPWELD_CHECK(require_min_rank(context, 0, 2));
  OPWELD_CHECK(require_min_rank(context, 1, 2));
  const Shape& a = context.type(0).shape;
  const Shape& b = context.type(1).shape;
  if (auto depth = unify_sizes(a.back(), b[b.size() - 2], "the columns of 'a' and the rows of 'b'",
                               context.assumptions);
      !depth) {
    return fail("{}: 'a' is {}, 'b' is {}", depth.error().message, to_string(context.type(0)),
                to_string(context.type(1)));
  }
  OPWELD_TRY(Shape shape,
             broadcast_shapes(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2),
                              "the batches of 'a' and 'b'", context.assumptions));
  shape.push_back(a[a.size() - 2]);
  shape.push_back(b.back());
  return std::vector<TensorType>{{context.type(0).dtype, std::move(shape)}};
}

// The matrices of one product, as positions of their first elements.
struct Product {
  std::int64_t rows, depth, columns;
  std::int64_t a, b, result;
};

std::vector<double> to_doubles(const Tensor& tensor, std::int64_t first, std::int64_t count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    values[static_cast<std::size_t>(i)] = tensor.get_double(first + i);
  }
  return values;
}

// Columns [first, first + width) of b, row after row.
std::vector<double> panel_of(const Tensor& b, const Product& product, std::int64_t first,
                             std::int64_t width) {
  std::vector<double> panel;
  panel.reserve(static_cast<std::size_t>(product.depth * width));
  for (std::int64_t k = 0; k < product.depth; ++k) {
    for (std::int64_t n = 0; n < width; ++n) {
      panel.push_back(b.get_double(product.b + k * product.columns + first + n));
    }
  }
  return panel;
}

// Panel by panel, so that models of real size are evaluated in bearable time; every element still
// gathers its products in order of depth, in double.
void multiply_floats(const EvalContext& context, const Product& product) {
  constexpr std::int64_t kPanel = 64;
  const auto a = to_doubles(*context.operands[0], product.a, product.rows * product.depth);
  for (std::int64_t first = 0; first < product.columns; first += kPanel) {
    const std::int64_t width = std::min(kPanel, product.columns - first);
    const auto panel = panel_of(*context.operands[1], product, first, width);
    for (std::int64_t m = 0; m < product.rows; ++m) {
      double sums[kPanel] = {};
      for (std::int64_t k = 0; k < product.depth; ++k) {
        const double factor = a[static_cast<std::size_t>(m * product.depth + k)];
        const double* row = panel.data() + k * width;
        for (std::int64_t n = 0; n < width; ++n) sums[n] += factor * row[n];
      }
      for (std::int64_t n = 0; n < width; ++n) {
        context.results[0].set_double(product.result + m * product.columns + first + n, sums[n]);
      }
    }
  }
}

void multiply_integers(const EvalContext& context, const Product& product) {
  const auto element = [&](int operand, std::int64_t at) {
    return static_cast<std::uint64_t>(context.operands[operand]->get_int(at));
  };
  for (std::int64_t m = 0; m < product.rows; ++m) {
    for (std::int64_t n = 0; n < product.columns; ++n) {
      std::uint64_t sum = 0;  // wraps
      for (std::int64_t k = 0; k < product.depth; ++k) {
        sum += element(0, product.a + m * product.depth + k) *
               element(1, product.b + k * product.columns + n);
      }
      const std::int64_t at = product.result + m * product.columns + n;
      context.results[0].set_int(at, static_cast<std::int64_t>(sum));
    }
  }
}

Sizes batch_of(const Tensor& tensor) {
  return {tensor.sizes().begin(), tensor.sizes().end() - 2};
}

Status evaluate_matmul(const EvalContext& context) {
  const Tensor& a = *context.operands[0];
  const Tensor& b = *context.operands[1];
  const std::int64_t rows = a.sizes()[a.sizes().size() - 2];
  const std::int64_t depth = a.sizes().back();
  const std::int64_t columns = b.sizes().back();
  const Sizes batches[] = {batch_of(a), batch_of(b)};
  const Sizes* operands[] = {&batches[0], &batches[1]};
  for (BroadcastWalk walk(batch_of(context.results[0]), operands); !walk.done(); walk.advance()) {
    const Product product{rows,
                          depth,
                          columns,
                          walk.offsets()[0] * rows * depth,
                          walk.offsets()[1] * depth * columns,
                          walk.position() * rows * columns};
    if (is_float(a.dtype())) {
      multiply_floats(context, product);
    } else {
      multiply_integers(context, product);
    }
  }
  return {};
}

}  // namespace

std::span<const OpDef> matmul_ops() {
  static const OpDef defs[] = {
      {
          .name = "matmul",
          .summary = "a[..., M, K] b[..., K, N] -> [..., M, N], batches broadcast (numpy.matmul of "
                     "ranks >= 2); zeros where K is 0; integers wrap",
          .trait = FusionTrait::Contract,
          .operands = {{"a", kNumbers, 1}, {"b", kNumbers, 1}},
          .attributes = {},
          .infer = infer_matmul,
          .evaluate = evaluate_matmul,
      },
  };
  return defs;
}

}  // namespace opweld
