#include "graph/convert.h"

#include <cassert>
#include <cmath>
#include <limits>

#include "graph/half.h"

namespace opweld {

std::int64_t wrap_integer(std::int64_t value, DType dtype) {
  switch (dtype) {
    case DType::I64:
      return value;
    case DType::I32:
      return static_cast<std::int32_t>(value);
    case DType::I16:
      return static_cast<std::int16_t>(value);
    case DType::I8:
      return static_cast<std::int8_t>(value);
    case DType::U8:
      return static_cast<std::uint8_t>(value);
    case DType::Bool:
      return value != 0 ? 1 : 0;
    default:
      assert(false && "not an integer type");
      return value;
  }
}

std::int64_t saturate_to_integer(double value, DType compute_type) {
  assert(compute_type == DType::I64 || compute_type == DType::I32);
  const bool wide = compute_type == DType::I64;
  const std::int64_t low =
      wide ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int32_t>::min();
  const std::int64_t high =
      wide ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int32_t>::max();
  // The limit of the upper side is a power of two, so it is exact in double while `high` is not.
  const double limit = wide ? 0x1p63 : 0x1p31;
  if (std::isnan(value)) return 0;
  if (value >= limit) return high;
  if (value <= -limit) return low;
  return static_cast<std::int64_t>(value);
}

std::int64_t float_to_integer(double value, DType dtype) {
  if (dtype == DType::Bool) return value != 0 ? 1 : 0;
  return wrap_integer(saturate_to_integer(value, compute_dtype(dtype)), dtype);
}

double round_to_float(double value, DType dtype) {
  switch (dtype) {
    case DType::F64:
      return value;
    case DType::F32:
      return static_cast<float>(value);
    case DType::F16:
      return from_f16_bits(to_f16_bits(value));
    case DType::BF16:
      return from_bf16_bits(to_bf16_bits(value));
    default:
      assert(false && "not a float type");
      return value;
  }
}

}  // namespace opweld
