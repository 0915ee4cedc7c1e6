// Conversions between element types: what a cast means, here and in every kernel.
#pragma once

#include <cstdint>

#include "graph/dtype.h"

namespace opweld {

// Two's complement wrap of `value` to the width and signedness of an integer dtype; value != 0 for
// bool.
std::int64_t wrap_integer(std::int64_t value, DType dtype);

// Truncates toward zero and saturates to the range of i64 or i32; NaN gives 0.
std::int64_t saturate_to_integer(double value, DType compute_type);

// A float or double as an element of integer `dtype`: saturated to its compute type, then wrapped.
std::int64_t float_to_integer(double value, DType dtype);

// `value` rounded to the float dtype (nearest, ties to even) and widened again.
double round_to_float(double value, DType dtype);

}  // namespace opweld
