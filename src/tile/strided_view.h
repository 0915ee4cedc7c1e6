// Index maps of the view operators: how a reader or a writer addresses a tensor that is another's
// elements in another arrangement, without a copy.
#pragma once

#include <optional>
#include <vector>

#include "graph/attributes.h"
#include "graph/graph.h"
#include "support/shape.h"

namespace opweld::tile {

// A tensor of `shape` whose element at an index lies at offset + sum(index[axis] * strides[axis])
// in a dense row-major buffer; all in elements. A stride may be negative (a reversed slice) or zero
// (a repeated element); that of an axis of size one has no meaning.
//
// The transforms mirror the view operators: they take what the operator's attributes hold, which
// has passed the operator's shape rule, and describe the operator's result over the same buffer.
struct StridedView {
  Shape shape;
  std::vector<Dim> strides;
  Dim offset;

  static StridedView contiguous(Shape shape);

  [[nodiscard]] StridedView transpose(const Ints& permutation) const;
  [[nodiscard]] StridedView slice(const Shape& starts, const Shape& sizes, const Ints& steps) const;
  [[nodiscard]] StridedView expand(const Shape& target) const;
  // Any axis splits; neighbours merge where stepping past the end of the inner one provably is a
  // step of the outer one. Nothing where the result has no strides, or none that can be proven.
  // Axes of size one come and go freely.
  [[nodiscard]] std::optional<StridedView> reshape(const Shape& target) const;

  // Provably element number i, in row-major order, lies at i.
  [[nodiscard]] bool is_contiguous() const;

  bool operator==(const StridedView&) const = default;
};

// `value` as a view of the dense tensor `base`, from which it is reached through reshape,
// transpose, slice and expand alone. Nothing if it is not, or if a reshape on the way would have to
// copy.
std::optional<StridedView> view_of(const Value* value, const Value* base);

// Where each element of `from` lies in the dense buffer of `to`, which is reached from `from`
// through reshape and transpose alone, so that a kernel computing `from` can store `to` at once:
// attention's [B, H, S, D] -> transpose -> reshape [B, S, H*D] has the strides (S*H*D, D, H*D, 1).
// Nothing if there is another operator between them or `from` has no strides there.
std::optional<StridedView> store_view(const Value* from, const Value* to);
// The same where `to` does not lie densely, but as `place` says.
std::optional<StridedView> store_view(const Value* from, const Value* to, StridedView place);

}  // namespace opweld::tile
