#include "graph/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/attributes.h"
#include "graph/tensor_type.h"

namespace opweld {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kMin64 = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax64 = std::numeric_limits<std::int64_t>::max();

Tensor scalar(DType dtype) {
  return *Tensor::allocate(dtype, {});
}

double round_trip(DType dtype, double value) {
  Tensor tensor = scalar(dtype);
  tensor.set_double(0, value);
  return tensor.get_double(0);
}

std::int64_t round_trip_int(DType dtype, std::int64_t value) {
  Tensor tensor = scalar(dtype);
  tensor.set_int(0, value);
  return tensor.get_int(0);
}

TEST(DTypes, NamesAndSizesAgree) {
  int bytes = 0;
  for (int index = 0; index < kDTypeCount; ++index) {
    const auto dtype = static_cast<DType>(index);
    EXPECT_EQ(parse_dtype(to_string(dtype)), dtype);
    EXPECT_EQ(compute_dtype(compute_dtype(dtype)), compute_dtype(dtype));
    EXPECT_EQ(is_float(compute_dtype(dtype)), is_float(dtype));
    bytes += byte_size(dtype);
  }
  EXPECT_EQ(bytes, 8 + 4 + 2 + 2 + 8 + 4 + 2 + 1 + 1 + 1);
  EXPECT_EQ(parse_dtype("f33"), std::nullopt);
  EXPECT_EQ(parse_dtype(""), std::nullopt);
}

TEST(Tensor, IsZeroAndAligned) {
  for (const Sizes& sizes : {Sizes{}, Sizes{0}, Sizes{3, 5}, Sizes{1000, 1000}}) {
    const Tensor tensor = *Tensor::allocate(DType::F32, sizes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64, 0U);
    for (std::int64_t i = 0; i < tensor.num_elements(); i += 7) {
      ASSERT_EQ(tensor.get_double(i), 0.0);
    }
  }
}

TEST(Tensor, CountsElements) {
  EXPECT_EQ(num_elements(Sizes{}), 1);
  EXPECT_EQ(num_elements(Sizes{2, 3}), 6);
  EXPECT_EQ(num_elements(Sizes{kMax64, kMax64, 0}), 0) << "whatever the others are";
  EXPECT_EQ(checked_num_elements({kMax64, 2}), std::nullopt);
  EXPECT_EQ(checked_num_elements({-1}), std::nullopt);
  EXPECT_EQ(checked_num_elements({0, -1}), std::nullopt);
  EXPECT_EQ(to_string(Sizes{2, 3}), "[2, 3]");
  EXPECT_EQ(to_string(Sizes{}), "[]");
}

TEST(Tensor, RefusesAbsurdSizes) {
  for (const Sizes& sizes :
       {Sizes{-1}, Sizes{kMax64}, Sizes{kMax64, 2}, Sizes{1LL << 40, 1LL << 40}}) {
    const auto tensor = Tensor::allocate(DType::I8, sizes);
    ASSERT_FALSE(tensor);
    EXPECT_THAT(tensor.error().message, HasSubstr(to_string(sizes)));
  }
  // This fits the address space, but hardly the machine.
  const auto tensor = Tensor::allocate(DType::F64, {1LL << 58});
  ASSERT_FALSE(tensor);
  EXPECT_THAT(tensor.error().message, HasSubstr("out of memory"));
}

TEST(Tensor, FloatsRoundToTheirType) {
  const double third = 1.0 / 3;
  EXPECT_EQ(round_trip(DType::F64, third), third);
  EXPECT_EQ(round_trip(DType::F32, third), 0.3333333432674408);
  EXPECT_EQ(round_trip(DType::F16, third), 0.333251953125);
  EXPECT_EQ(round_trip(DType::BF16, third), 0.333984375);
  for (const DType dtype : {DType::F64, DType::F32, DType::F16, DType::BF16}) {
    EXPECT_EQ(round_trip(dtype, INFINITY), INFINITY);
    EXPECT_TRUE(std::isnan(round_trip(dtype, NAN)));
    EXPECT_TRUE(std::signbit(round_trip(dtype, -0.0)));
    EXPECT_EQ(round_trip_int(dtype, -3), -3);
  }
  Tensor single = scalar(DType::F32);
  // 2^60 + 2^36 + 1 is above the midpoint of two floats; by way of double it would be on it.
  single.set_int(0, (1LL << 60) + (1LL << 36) + 1);
  EXPECT_EQ(single.get_double(0), std::ldexp(1.0, 60) + std::ldexp(1.0, 37));
}

TEST(Tensor, IntegersWrap) {
  EXPECT_EQ(round_trip_int(DType::I64, kMin64), kMin64);
  EXPECT_EQ(round_trip_int(DType::I32, (1LL << 31) + 5), -(1LL << 31) + 5);
  EXPECT_EQ(round_trip_int(DType::I16, 40000), 40000 - 65536);
  EXPECT_EQ(round_trip_int(DType::I8, 200), -56);
  EXPECT_EQ(round_trip_int(DType::I8, -129), 127);
  EXPECT_EQ(round_trip_int(DType::U8, -1), 255);
  EXPECT_EQ(round_trip_int(DType::U8, 256), 0);
  EXPECT_EQ(round_trip_int(DType::Bool, 256), 1);
  EXPECT_EQ(round_trip_int(DType::Bool, 0), 0);
}

// Truncated, saturated to i64 or i32, then wrapped: what docs/numerics.md says of casts.
TEST(Tensor, FloatsBecomeIntegersWithoutUndefinedBehaviour) {
  EXPECT_EQ(round_trip(DType::I32, 2.9), 2);
  EXPECT_EQ(round_trip(DType::I32, -2.9), -2);
  EXPECT_EQ(round_trip(DType::I32, 1e10), 2147483647);
  EXPECT_EQ(round_trip(DType::I32, -INFINITY), -2147483648.0);
  EXPECT_EQ(round_trip(DType::I8, 300), 44);
  EXPECT_EQ(round_trip(DType::I8, INFINITY), -1) << "2^31 - 1 wrapped";
  EXPECT_EQ(round_trip(DType::U8, -1), 255);
  for (const DType dtype : {DType::I64, DType::I32, DType::I16, DType::I8, DType::U8}) {
    EXPECT_EQ(round_trip(dtype, NAN), 0);
  }
  EXPECT_EQ(round_trip(DType::Bool, 0.25), 1);
  EXPECT_EQ(round_trip(DType::Bool, -0.0), 0);
  EXPECT_EQ(round_trip(DType::Bool, NAN), 1);

  Tensor tensor = scalar(DType::F64);
  for (const auto& [value, expected] : {std::pair{1e30, kMax64},
                                        {-1e30, kMin64},
                                        {NAN, 0LL},
                                        {0x1p63, kMax64},
                                        {-0x1p63, kMin64},
                                        {-7.9, -7LL}}) {
    tensor.set_double(0, value);
    EXPECT_EQ(tensor.get_int(0), expected) << value;
  }
}

TEST(Tensor, CopiesShareTheirBytes) {
  Tensor a = *Tensor::allocate(DType::I32, {2, 3});
  Tensor b = a.reshaped({6});
  b.set_int(4, 7);
  EXPECT_EQ(a.get_int(4), 7);
  EXPECT_EQ(b.sizes(), (Sizes{6}));
  EXPECT_EQ(a.view<std::int32_t>()[4], 7);
  a.mutable_view<std::int32_t>()[0] = -1;
  EXPECT_EQ(b.get_int(0), -1);
}

TEST(Tensor, BorrowedBytesLiveAsLongAsTheirReaders) {
  auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3});
  std::weak_ptr<void> alive = owner;
  {
    Tensor copy;
    {
      const Tensor tensor =
          Tensor::borrow(DType::F32, {3}, reinterpret_cast<const std::byte*>(owner->data()), owner);
      copy = tensor;
    }
    owner.reset();
    EXPECT_FALSE(alive.expired());
    EXPECT_EQ(copy.get_double(2), 3);
  }
  EXPECT_TRUE(alive.expired());
}

TEST(TensorDeathTest, BorrowedBytesAreNotWritten) {
  const std::int32_t number = 1;
  Tensor tensor =
      Tensor::borrow(DType::I32, {1}, reinterpret_cast<const std::byte*>(&number), nullptr);
  EXPECT_DEATH(tensor.set_int(0, 2), "writable_");
}

TEST(Tensor, IdenticalComparesBits) {
  const auto real = [](double value) {
    Tensor tensor = scalar(DType::F32);
    tensor.set_double(0, value);
    return tensor;
  };
  EXPECT_TRUE(identical(real(NAN), real(NAN)));
  EXPECT_FALSE(identical(real(0.0), real(-0.0)));
  EXPECT_FALSE(identical(scalar(DType::F32), scalar(DType::I32)));
  EXPECT_FALSE(identical(*Tensor::allocate(DType::I8, {2, 3}), *Tensor::allocate(DType::I8, {6})));
  EXPECT_TRUE(identical(*Tensor::allocate(DType::I8, {0}), *Tensor::allocate(DType::I8, {0})));
  EXPECT_TRUE(identical(Tensor(), Tensor()));
  EXPECT_FALSE(identical(Tensor(), real(1)));
}

TEST(Tensor, ACloneHasStorageOfItsOwn) {
  Tensor tensor = Tensor::allocate(DType::F32, {2, 2}).value();
  tensor.set_double(3, 7);
  const Tensor copy = tensor.clone().value();
  tensor.set_double(3, 8);
  EXPECT_EQ(copy.sizes(), (Sizes{2, 2}));
  EXPECT_EQ(copy.get_double(3), 7);
  EXPECT_EQ(Tensor::allocate(DType::I8, {0, 3}).value().clone().value().sizes(), (Sizes{0, 3}));
}

TEST(TensorType, PrintsAndMultiplies) {
  const Dim b = Dim::symbol("b");
  const TensorType type{DType::F16, {b, 3, 8}, Format::NHWC};
  EXPECT_EQ(to_string(type), "f16[b, 3, 8]:nhwc");
  EXPECT_EQ(to_string(TensorType{DType::Bool, {}}), "bool[]");
  EXPECT_EQ(type.num_elements(), b * 24);
  EXPECT_EQ(type.num_bytes(), b * 48);
  EXPECT_EQ(TensorType{}.num_elements(), Dim(1));
}

TEST(Attributes, AreSortedAndReplaced) {
  Attributes attributes{{"b", std::int64_t{1}}, {"a", 0.5}, {"c", std::string("x")}};
  attributes.set("b", std::int64_t{2});
  std::string names;
  for (const auto& [name, value] : attributes) names += name;
  EXPECT_EQ(names, "abc");
  EXPECT_EQ(attributes.integer("b"), 2);
  attributes.erase("b");
  attributes.erase("zz");
  EXPECT_FALSE(attributes.has("b"));
  EXPECT_TRUE(attributes.has("c"));
}

TEST(Attributes, ReadWithTheirKind) {
  const Attributes attributes{{"i", std::int64_t{3}},
                              {"r", 2.5},
                              {"t", std::string("text")},
                              {"d", DType::BF16},
                              {"is", Ints{1, 2}},
                              {"rs", Doubles{0.5}},
                              {"s", Shape{Dim::symbol("n"), 2}},
                              {"v", *Tensor::allocate(DType::I8, {3})}};
  EXPECT_EQ(attributes.integer("i"), 3);
  EXPECT_EQ(attributes.integer("i", 9), 3);
  EXPECT_EQ(attributes.integer("absent", 9), 9);
  EXPECT_EQ(attributes.real("r"), 2.5);
  EXPECT_EQ(attributes.real("absent", 0.5), 0.5);
  EXPECT_EQ(attributes.text("t"), "text");
  EXPECT_EQ(attributes.text("absent", "other"), "other");
  EXPECT_EQ(attributes.dtype("d"), DType::BF16);
  EXPECT_EQ(attributes.ints("is"), (Ints{1, 2}));
  EXPECT_EQ(attributes.reals("rs"), Doubles{0.5});
  EXPECT_EQ(attributes.shape("s"), (Shape{Dim::symbol("n"), 2}));
  EXPECT_EQ(attributes.tensor("v").sizes(), (Sizes{3}));
}

TEST(Attributes, CompareByContent) {
  const auto with = [](Attribute value) { return Attributes{{"a", std::move(value)}}; };
  EXPECT_EQ(with(NAN), with(NAN));
  EXPECT_FALSE(with(0.0) == with(-0.0));
  EXPECT_FALSE(with(1.0) == with(std::int64_t{1}));
  EXPECT_FALSE(with(Ints{}) == with(Shape{}));
  EXPECT_EQ(with(Doubles{NAN, 1}), with(Doubles{NAN, 1}));
  EXPECT_FALSE(with(Doubles{1}) == with(Doubles{1, 2}));
  EXPECT_EQ(with(*Tensor::allocate(DType::I8, {3})), with(*Tensor::allocate(DType::I8, {3})));
  EXPECT_FALSE(with(*Tensor::allocate(DType::I8, {3})) == with(*Tensor::allocate(DType::U8, {3})));
  EXPECT_FALSE(with(1.0) == Attributes{});
}

TEST(AttributesDeathTest, WrongReadsAreOurOwnMistakes) {
  const Attributes attributes{{"i", std::int64_t{3}}};
  EXPECT_DEATH((void)attributes.integer("absent"), "missing");
  EXPECT_DEATH((void)attributes.real("i"), "wrong kind");
}

}  // namespace
}  // namespace opweld
