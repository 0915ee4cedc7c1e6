// What shape rules have in common: axes, equal sizes, numpy's broadcasting.
//
// Messages speak of operands and axes only; build_node puts the operator and the node before them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops/op.h"

namespace opweld {

// An axis of a tensor of this rank, counted from the end where negative.
Expected<int> normalize_axis(std::int64_t axis, int rank);
// The same for several, sorted; naming one twice is an error.
Expected<std::vector<int>> normalize_axes(const Ints& axes, int rank);

// The one size that both stand for. Equal forms are the same size; a size that is provably another
// is an error; what cannot be decided is recorded as an assumption and the constant preferred.
// `what` tells the reader which sizes these are: "axis 0 of 'a' and 'b'".
Expected<Dim> unify_sizes(const Dim& a, const Dim& b, std::string_view what,
                          std::vector<SizeAssumption>* assumptions);

// The same where only the agreement matters.
Status require_same_size(const OpContext& context, const Dim& a, const Dim& b,
                         std::string_view what);

// `size` (called `what`) is a multiple of `divisor`: proven, assumed, or an error.
Status require_multiple(const OpContext& context, const Dim& size, const Dim& divisor,
                        std::string_view what);

// Every axis unified; the ranks must agree.
Expected<Shape> unify_shapes(const Shape& a, const Shape& b, std::string_view what,
                             std::vector<SizeAssumption>* assumptions);

// numpy's broadcasting, axes aligned at the end: equal sizes give that size, a constant 1 gives the
// other, anything else is unified as above.
Expected<Shape> broadcast_shapes(const Shape& a, const Shape& b, std::string_view what,
                                 std::vector<SizeAssumption>* assumptions);

// Broadcasts the shapes of all operands that are present.
Expected<Shape> broadcast_operands(const OpContext& context);

// Fails unless operand `index`, called `name`, broadcasts to `target` without changing it:
// one-sided broadcasting, for scales, slopes and masks. Nothing is asked of an absent operand.
Status require_broadcast_to(const OpContext& context, int index, std::string_view name,
                            const Shape& target);

// The shape rule of most pointwise operators: operands broadcast, the result has `dtype`.
Expected<std::vector<TensorType>> infer_pointwise(const OpContext& context, DType dtype);

// Fails unless operand `index` has exactly (at least) this rank.
Status require_rank(const OpContext& context, int index, int rank);
Status require_min_rank(const OpContext& context, int index, int rank);

// The format of a pointwise result: that of the operands, where those of full rank agree.
Format common_format(const OpContext& context);

}  // namespace opweld
