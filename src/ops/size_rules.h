// Rules about sizes that the moving operators share, beside those of infer_helpers.h.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/op.h"
#include "support/expected.h"
#include "support/shape.h"

namespace opweld {

// 0 <= axis < rank, for attributes that admit no negative axes (importers normalise them).
Status check_axis(std::int64_t axis, int rank);

// left <= right: proven, refuted (an error), or assumed in the form max(left, right) == right.
// `what` begins the sentence "..., but they are 5 and 4".
Status require_at_most(const OpContext& context, const Dim& left, const Dim& right,
                       std::string_view what);

// Every size representable and, by proof or assumption, not negative.
Status check_sizes(const OpContext& context, const Shape& shape, std::string_view what);

// An attribute that holds a single Dim is a Shape of one element.
Expected<Dim> single_dim(const Attributes& attributes, std::string_view name);

// The common ending of a shape rule: one result of this type, its sizes checked.
Expected<std::vector<TensorType>> one_result(const OpContext& context, TensorType type);

}  // namespace opweld
