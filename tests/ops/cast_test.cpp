#include "ops/tables.h"

namespace opweld {
namespace {

void expect_cast(const Tensor& x, DType to, const std::vector<double>& values) {
  SCOPED_TRACE(fmt::format("{} to {}", to_string(x.dtype()), to_string(to)));
  expect_result(run_op("cast", {x}, {{"to", to}}), to, x.sizes(), values);
}

TEST(Cast, KeepsWhatBothDTypesHold) {
  for (const DType from : kAllDTypes) {
    for (const DType to : kAllDTypes) {
      const bool has_bool = from == DType::Bool || to == DType::Bool;
      const std::vector<double> values =
          has_bool ? std::vector<double>{0, 1} : std::vector<double>{0, 1, 17, 127};
      const Tensor x = make_tensor(from, {static_cast<std::int64_t>(values.size())}, values);
      expect_cast(x, to, values);
    }
  }
}

TEST(Cast, RoundsFloatsToNearestEven) {
  const Tensor x = floats({6}, {1 + 0x1p-11, 1 + 3 * 0x1p-11, 65519, 65520, 0x1p-25, -0x1.8p-25});
  expect_cast(x, DType::F16, {1, 1 + 0x1p-9, 65504, kInf, 0, -0x1p-24});
  const Tensor y = floats({4}, {1 + 0x1p-8, 1 + 3 * 0x1p-8, 3.39e38, kNaN});
  expect_cast(y, DType::BF16, {1, 1 + 0x1p-6, 0x1.fep127, kNaN});
  const Tensor z = make_tensor(DType::F64, {3}, {1 + 0x1p-24, 1 + 3 * 0x1p-24, 1e39});
  expect_cast(z, DType::F32, {1, 1 + 0x1p-22, kInf});
}

// 1 + 2^-11 + 2^-40 is above the middle of two halves, and on it once it has been rounded to f32.
TEST(Cast, DoublesReachHalvesByWayOfF32) {
  expect_cast(make_tensor(DType::F64, {1}, {1 + 0x1p-11 + 0x1p-40}), DType::F16, {1});
  expect_cast(make_tensor(DType::F64, {1}, {1 + 0x1p-8 + 0x1p-40}), DType::BF16, {1});
}

// 2^24 + 1 lies between two floats; 2^54 + 2^30 + 1 is above the middle, and on it as a double.
TEST(Cast, IntegersToFloatsRoundOnce) {
  Tensor x = zeros(DType::I64, {2});
  x.set_int(0, (int64_t{1} << 24) + 1);
  x.set_int(1, (int64_t{1} << 54) + (int64_t{1} << 30) + 1);
  expect_cast(x, DType::F32, {0x1p24, 0x1p54 + 0x1p31});
}

TEST(Cast, FloatsToIntegersTruncate) {
  const Tensor x = floats({6}, {-2.9, -0.5, 0.5, 2.9, 100.999, -100.999});
  for (const DType to : {DType::I64, DType::I32, DType::I16, DType::I8}) {
    expect_cast(x, to, {-2, 0, 0, 2, 100, -100});
  }
}

// Out of range the standard leaves everything open. Ours: saturate to the compute type, wrap.
TEST(Cast, FloatsOutOfRange) {
  const std::vector<double> values = {300, kNaN, kInf, -kInf, 50, -50};
  for (const DType from : kFloatDTypes) {
    const Tensor x = make_tensor(from, {6}, values);
    expect_cast(x, DType::I8, {44, 0, -1, 0, 50, -50});
    expect_cast(x, DType::U8, {44, 0, 255, 0, 50, 206});
    expect_cast(x, DType::I16, {300, 0, -1, 0, 50, -50});
    expect_cast(x, DType::I32, {300, 0, 2147483647, -2147483648.0, 50, -50});
    expect_cast(x, DType::I64, {300, 0, 0x1p63, -0x1p63, 50, -50});  // as doubles
  }
}

TEST(Cast, IntegersWrap) {
  expect_cast(ints({4}, {300, -1, 128, 256}), DType::I8, {44, -1, -128, 0});
  expect_cast(ints({4}, {300, -1, 128, 256}), DType::U8, {44, 255, 128, 0});
  expect_cast(ints({2}, {0x1p32, 0x1p31}), DType::I32, {0, -0x1p31});
}

TEST(Cast, ToBoolIsUnequalToZero) {
  for (const DType from : kFloatDTypes) {
    expect_cast(make_tensor(from, {6}, {0, -0.0, 0.25, -1, kInf, kNaN}), DType::Bool,
                {0, 0, 1, 1, 1, 1});
  }
  expect_cast(ints({4}, {0, 256, -1, 0x1p32}), DType::Bool, {0, 1, 1, 1});
}

TEST(Cast, KeepsShape) {
  expect_cast(floats({}, {2.5}), DType::I32, {2});
  expect_cast(floats({2, 0, 3}, {}), DType::F16, {});
  expect_error(run_op("cast", {floats({1}, {1})}, {}), "attribute 'to' (a dtype) is missing");
}

TEST(Cast, OfSizes) {
  const Dim s = Dim::symbol("s");
  Graph graph;
  Value* sizes = graph.add_input("sizes", {DType::I64, {3}});
  sizes->set_contents(Shape{s, -1, 0x1'0000'0005});
  Builder builder(graph);
  EXPECT_EQ(builder.cast(sizes, DType::I32)->contents(), (std::vector<Dim>{s, -1, 5}));
  EXPECT_FALSE(builder.cast(sizes, DType::I8)->contents());
  EXPECT_FALSE(builder.cast(sizes, DType::F32)->contents());
  Value* constants = graph.add_input("constants", {DType::I64, {2}});
  constants->set_contents(Shape{0, 300});
  EXPECT_EQ(builder.cast(constants, DType::I8)->contents(), (std::vector<Dim>{0, 44}));
  EXPECT_EQ(builder.cast(constants, DType::Bool)->contents(), (std::vector<Dim>{0, 1}));
}

}  // namespace
}  // namespace opweld
