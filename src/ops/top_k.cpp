// top_k: the k greatest or least elements along an axis, with their indices.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/element_walk.h"
#include "ops/families.h"
#include "ops/size_rules.h"

namespace opweld {
namespace {

Expected<std::vector<TensorType>> infer_top_k(const OpContext& context) {
  TensorType values = context.type(0);
  const std::int64_t axis = context.attributes.integer("axis");
  OPWELD_CHECK(check_axis(axis, values.rank()));
  OPWELD_TRY(const Dim k, single_dim(context.attributes, "k"));
  Dim& size = values.shape[static_cast<std::size_t>(axis)];
  OPWELD_CHECK(require_at_most(context, k, size,
                               fmt::format("k must not exceed the size of axis {}", axis)));
  size = k;
  OPWELD_CHECK(check_sizes(context, values.shape, "the result's size on axis"));
  const TensorType indices{DType::I64, values.shape, values.format};
  return std::vector<TensorType>{values, indices};
}

// A total order: NaN is greater than every number, as in numpy.sort.
bool less(double a, double b) {
  return !std::isnan(a) && (std::isnan(b) || a < b);
}
bool less(std::int64_t a, std::int64_t b) {
  return a < b;
}

// The first `k` entries of `order` become the places in `lane` of its k greatest (least) elements,
// best first; equals keep their order.
template <typename T>
void select_best(const std::vector<T>& lane, std::int64_t k, bool largest, Sizes& order) {
  order.resize(lane.size());
  std::iota(order.begin(), order.end(), 0);
  const auto precedes = [&](std::int64_t a, std::int64_t b) {
    const T& x = lane[static_cast<std::size_t>(a)];
    const T& y = lane[static_cast<std::size_t>(b)];
    if (largest ? less(y, x) : less(x, y)) return true;
    if (largest ? less(x, y) : less(y, x)) return false;
    return a < b;
  };
  // A selection of all is a sort, for which a heap is a detour.
  if (k == std::ssize(order)) {
    std::sort(order.begin(), order.end(), precedes);
  } else {
    std::partial_sort(order.begin(), order.begin() + k, order.end(), precedes);
  }
}

template <typename T, typename Read>
void top_k_lanes(const EvalContext& context, const Read& read) {
  const Tensor& x = *context.operands[0];
  Tensor& values = context.results[0];
  Tensor& indices = context.results[1];
  const auto axis = static_cast<std::size_t>(context.attributes.integer("axis"));
  const bool largest = context.attributes.integer("largest", 1) != 0;
  const AxisSplit split(x.sizes(), axis);
  const std::int64_t k = values.sizes()[axis];
  const ElementMover move(values, x);
  std::vector<T> lane(static_cast<std::size_t>(split.length));
  Sizes order;
  for (std::int64_t outer = 0; outer < split.outer; ++outer) {
    for (std::int64_t inner = 0; inner < split.inner; ++inner) {
      const auto place = [&](std::int64_t length, std::int64_t i) {
        return (outer * length + i) * split.inner + inner;
      };
      for (std::int64_t i = 0; i < split.length; ++i) {
        lane[static_cast<std::size_t>(i)] = read(place(split.length, i));
      }
      select_best(lane, k, largest, order);
      for (std::int64_t i = 0; i < k; ++i) {
        const std::int64_t best = order[static_cast<std::size_t>(i)];
        move(place(k, i), place(split.length, best));
        indices.set_int(place(k, i), best);
      }
    }
  }
}

Status evaluate_top_k(const EvalContext& context) {
  const Tensor& x = *context.operands[0];
  if (is_float(x.dtype())) {
    top_k_lanes<double>(context, [&](std::int64_t i) { return x.get_double(i); });
  } else {
    top_k_lanes<std::int64_t>(context, [&](std::int64_t i) { return x.get_int(i); });
  }
  return {};
}

}  // namespace

std::span<const OpDef> top_k_ops() {
  static const OpDef defs[] = {
      {
          .name = "top_k",
          .summary =
              "values and i64 indices of the k greatest (`largest` = 0: least) elements along "
              "`axis`, best first; of equals the one of the lower index; NaN is the greatest. "
              "`sorted` = 0 leaves the order open",
          .trait = FusionTrait::Opaque,
          .operands = {{"x", kNumbers}},
          .attributes = {{"axis", AttributeKind::Integer},
                         {"k", AttributeKind::Shape},
                         {"largest", AttributeKind::Integer, false},
                         {"sorted", AttributeKind::Integer, false}},
          .infer = infer_top_k,
          .evaluate = evaluate_top_k,
      },
  };
  return defs;
}

}  // namespace opweld
