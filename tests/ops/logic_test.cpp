#include "ops/tables.h"

namespace opweld {
namespace {

TEST(Logic, OfBools) {
  const Tensor a = make_tensor(DType::Bool, {4}, {0, 0, 1, 1});
  const Tensor b = make_tensor(DType::Bool, {4}, {0, 1, 0, 1});
  expect_result(run_op("and", {a, b}, {}), DType::Bool, {4}, {0, 0, 0, 1});
  expect_result(run_op("or", {a, b}, {}), DType::Bool, {4}, {0, 1, 1, 1});
  expect_result(run_op("xor", {a, b}, {}), DType::Bool, {4}, {0, 1, 1, 0});
  expect_result(run_op("not", {a}, {}), DType::Bool, {4}, {1, 1, 0, 0});
  expect_error(run_op("and", {ints({1}, {1}), ints({1}, {1})}, {}), "operand 'a' cannot be i64");
}

TEST(Logic, OfBits) {
  const std::vector<double> a = {0b1100, 0, 127, 85};
  const std::vector<double> b = {0b1010, 1, 64, 42};
  expect_on_integers({"bit_and", {a, b}, {0b1000, 0, 64, 0}});
  expect_on_integers({"bit_or", {a, b}, {0b1110, 1, 127, 127}});
  expect_on_integers({"bit_xor", {a, b}, {0b0110, 1, 63, 127}});
  for (const DType dtype : {DType::I64, DType::I32, DType::I16, DType::I8}) {
    expect_vector({"bit_not", {{0, 5, -1, -128}}, {-1, -6, 0, 127}}, dtype);
    expect_vector({"bit_and", {{-1, -2}, {7, 7}}, {7, 6}}, dtype);
  }
  expect_vector({"bit_not", {{0, 5, 255}}, {255, 250, 0}}, DType::U8);
  expect_error(run_op("bit_and", {floats({1}, {1}), floats({1}, {1})}, {}), "cannot be f32");
}

TEST(Logic, ShiftsWithinTheWidth) {
  expect_on_integers({"shift_left", {{1, 3, 5, 0}, {3, 4, 0, 7}}, {8, 48, 5, 0}});
  expect_on_integers({"shift_right", {{8, 100, 127, 1}, {2, 3, 6, 1}}, {2, 12, 1, 0}});
  for (const DType dtype : {DType::I64, DType::I32, DType::I16, DType::I8}) {
    expect_vector({"shift_right", {{-8, -1, -128}, {2, 5, 7}}, {-2, -1, -1}}, dtype);
    expect_vector({"shift_left", {{-3, -1}, {2, 4}}, {-12, -16}}, dtype);
  }
  expect_vector({"shift_right", {{255, 128}, {7, 1}}, {1, 64}}, DType::U8);
  expect_vector({"shift_left", {{255, 129}, {1, 7}}, {254, 128}}, DType::U8);
  expect_vector({"shift_left", {{65}, {1}}, {-126}}, DType::I8);
}

TEST(Logic, ShiftsBeyondTheWidthGiveZero) {
  for (const DType dtype : kIntegerDTypes) {
    const double width = 8 * byte_size(dtype);
    for (const char* op : {"shift_left", "shift_right"}) {
      expect_vector({op, {{3, 3, 3}, {width, width + 1, 127}}, {0, 0, 0}}, dtype);
      if (dtype == DType::U8) continue;
      expect_vector({op, {{-3, -3, 3}, {width, -1, -128}}, {0, 0, 0}}, dtype);
    }
  }
}

}  // namespace
}  // namespace opweld
