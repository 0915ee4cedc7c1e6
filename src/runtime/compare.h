// Are two results the same, up to rounding?
#pragma once

#include <string>

#include "graph/tensor.h"

namespace opweld {

// |actual - expected| <= absolute + relative * |expected|
struct Tolerance {
  double relative = 0;
  double absolute = 0;
};

// f32 2^-10 and 2^-16, f16 2^-9, bf16 2^-6; integers and bool exact.
Tolerance default_tolerance(DType dtype);

struct Comparison {
  bool equal = true;
  std::string message;  // where they differ, and how many elements do
  double largest_difference = 0;
  std::int64_t outside = 0;  // elements outside the tolerance
};

// Dtypes may differ (an f64 reference); sizes must agree. NaN equals NaN, an infinity the same
// infinity. Equal when at least 99 % of the elements are within the tolerance and none is beyond
// eight times it.
Comparison compare(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance);

// Every element within the tolerance.
Comparison compare_strictly(const Tensor& actual, const Tensor& expected,
                            const Tolerance& tolerance);

}  // namespace opweld
