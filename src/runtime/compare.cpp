#include "runtime/compare.h"

#include <algorithm>
#include <cmath>

namespace opweld {

Tolerance default_tolerance(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return {0x1p-30, 0x1p-40};
    case DType::F32:
      return {0x1p-10, 0x1p-16};
    case DType::F16:
      return {0x1p-9, 0x1p-9};
    case DType::BF16:
      return {0x1p-6, 0x1p-6};
    default:
      return {};
  }
}

namespace {

// How many tolerances apart; infinite where NaN or an infinity is on one side only.
double distance(double actual, double expected, const Tolerance& tolerance) {
  if (std::isnan(actual) && std::isnan(expected)) return 0;
  if (actual == expected) return 0;
  const double difference = std::abs(actual - expected);
  if (std::isnan(difference) || std::isinf(difference)) return HUGE_VAL;
  return difference / (tolerance.absolute + tolerance.relative * std::abs(expected));
}

Comparison compare_within(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance,
                          double allowed_share, double hard_limit) {
  Comparison result;
  if (actual.sizes() != expected.sizes()) {
    return {false,
            fmt::format("its shape is {} instead of {}", to_string(actual.sizes()),
                        to_string(expected.sizes())),
            HUGE_VAL, 0};
  }
  std::int64_t worst = -1;
  double worst_distance = 0;
  for (std::int64_t i = 0; i < actual.num_elements(); ++i) {
    const bool exact = !is_float(actual.dtype()) && !is_float(expected.dtype());
    const double a = exact ? static_cast<double>(actual.get_int(i)) : actual.get_double(i);
    const double e = exact ? static_cast<double>(expected.get_int(i)) : expected.get_double(i);
    const double apart = exact ? (actual.get_int(i) == expected.get_int(i) ? 0 : HUGE_VAL)
                               : distance(a, e, tolerance);
    if (apart > 0 && std::isfinite(a - e)) {
      result.largest_difference = std::max(result.largest_difference, std::abs(a - e));
    }
    if (apart > 1) ++result.outside;
    if (apart > worst_distance) {
      worst_distance = apart;
      worst = i;
    }
  }
  const double share = static_cast<double>(result.outside) /
                       static_cast<double>(std::max<std::int64_t>(1, actual.num_elements()));
  result.equal = share <= allowed_share && worst_distance <= hard_limit;
  if (!result.equal) {
    result.message = fmt::format(
        "{} of {} elements differ; the worst is number {}: {} instead of {}", result.outside,
        actual.num_elements(), worst, actual.get_double(worst), expected.get_double(worst));
  }
  return result;
}

}  // namespace

Comparison compare(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance) {
  constexpr double kAllowedShare = 0.01;
  constexpr double kHardLimit = 8;
  return compare_within(actual, expected, tolerance, kAllowedShare, kHardLimit);
}

Comparison compare_strictly(const Tensor& actual, const Tensor& expected,
                            const Tolerance& tolerance) {
  return compare_within(actual, expected, tolerance, 0, 1);
}

}  // namespace opweld
