// Tables of operators and values: what an operator must give, whatever the dtype.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "graph/convert.h"
#include "ops/run_op.h"

namespace opweld {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

inline constexpr DType kFloatDTypes[] = {DType::F64, DType::F32, DType::F16, DType::BF16};
inline constexpr DType kIntegerDTypes[] = {DType::I64, DType::I32, DType::I16, DType::I8,
                                           DType::U8};

// The values rounded once to a float dtype.
inline std::vector<double> rounded(const std::vector<double>& values, DType dtype) {
  std::vector<double> result;
  result.reserve(values.size());
  for (const double value : values) result.push_back(round_to_float(value, dtype));
  return result;
}

// One operator on vectors of the same length; operands and result have one dtype.
struct VectorCase {
  std::string op;
  std::vector<std::vector<double>> operands;
  std::vector<double> result;
  Attributes attributes = {};
};

// Equal, up to the few roundings of an evaluation in double where the dtype shows them. They are
// relative to the value, or to `unit` if that is more, where the formula cancels.
inline void expect_close(const Tensor& actual, DType dtype, const Sizes& sizes,
                         const std::vector<double>& values, double unit = 0) {
  if (dtype != DType::F64) return expect_tensor(actual, dtype, sizes, values);
  EXPECT_EQ(actual.dtype(), dtype);
  ASSERT_EQ(actual.sizes(), sizes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double element = actual.get_double(static_cast<std::int64_t>(i));
    if (std::isnan(values[i]) || std::isinf(values[i])) {
      EXPECT_THAT(element, testing::NanSensitiveDoubleEq(values[i])) << "element " << i;
    } else {
      const double size = std::max(std::fabs(values[i]), unit);
      EXPECT_NEAR(element, values[i], 2e-15 * size) << "element " << i;
    }
  }
}

// The operands must be exact in `dtype`; the result is the given one, rounded once.
inline void expect_vector(const VectorCase& test, DType dtype) {
  SCOPED_TRACE(test.op + " " + std::string(to_string(dtype)));
  std::vector<Tensor> operands;
  const Sizes sizes{static_cast<std::int64_t>(test.result.size())};
  for (const auto& values : test.operands) operands.push_back(make_tensor(dtype, sizes, values));
  const auto expected = is_float(dtype) ? rounded(test.result, dtype) : test.result;
  const auto actual = run_op(test.op, operands, test.attributes);
  ASSERT_TRUE(actual.has_value()) << actual.error().message;
  expect_close((*actual)[0], dtype, sizes, expected);
}

inline void expect_on_floats(const VectorCase& test) {
  for (const DType dtype : kFloatDTypes) expect_vector(test, dtype);
}

inline void expect_on_integers(const VectorCase& test) {
  for (const DType dtype : kIntegerDTypes) expect_vector(test, dtype);
}

}  // namespace opweld
