// Axes of reductions and of operators along one axis: attributes, shapes, and loops over elements.
#pragma once

#include <vector>

#include "graph/tensor.h"
#include "ops/op.h"

namespace opweld {

// The attribute `axes` of a reduction, sorted and counted from the front; every axis where absent.
Expected<std::vector<int>> reduction_axes(const Attributes& attributes, int rank);
// Whether reduced axes stay, with size 1; they do where the attribute `keepdims` is absent.
bool keeps_dims(const Attributes& attributes);

// `shape` with the axes reduced: of size 1, or taken out.
Shape reduced_shape(const Shape& shape, const std::vector<int>& axes, bool keep);
Sizes reduced_sizes(const Sizes& sizes, const std::vector<int>& axes, bool keep);

// The attribute `axis`, counted from the front; `otherwise` where absent.
Expected<int> axis_attribute(const Attributes& attributes, int rank, std::int64_t otherwise);

// Shape rule: the type of operand 0, whose `axis` (-1 where absent) must exist.
Expected<std::vector<TensorType>> infer_along_axis(const OpContext& context);

// A dense tensor seen as [outer, length, inner] with one axis, or several neighbouring axes, in the
// middle. Lines run along it: element i of line (o, n) lies at o * length * inner + i * inner + n.
struct AxisLines {
  std::int64_t outer = 1;
  std::int64_t length = 1;
  std::int64_t inner = 1;

  // The axes [first, last).
  AxisLines(const Sizes& sizes, int first, int last);

  // Calls visit(start) for every line; its elements lie at start + i * inner.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t n = 0; n < inner; ++n) visit(o * length * inner + n);
    }
  }
};

}  // namespace opweld
