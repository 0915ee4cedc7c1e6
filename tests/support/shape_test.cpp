#include "support/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace opweld {
namespace {

const Dim kBatch = Dim::symbol("b", {1, 64});
const Dim kLength = Dim::symbol("s", {1, 512, 8});

SymbolTable symbols() {
  SymbolTable table;
  EXPECT_TRUE(table.add(*kBatch.as_symbol()).has_value());
  EXPECT_TRUE(table.add(*kLength.as_symbol()).has_value());
  EXPECT_TRUE(table.add({"odd, name]", {}}).has_value());
  return table;
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(num_elements({kBatch, kLength, 384}), 384 * kBatch * kLength);
  EXPECT_EQ(num_elements({}), 1);
  EXPECT_EQ(num_elements({Dim::kPlusInfinity, Dim::kPlusInfinity, 0}), 0);
  EXPECT_TRUE(num_elements({Dim::kPlusInfinity, 2}).is_overflow());
  EXPECT_TRUE(num_elements({Dim::overflow(), 0}).is_overflow());
}

TEST(Shape, Strides) {
  EXPECT_THAT(row_major_strides({kBatch, kLength, 384}),
              ::testing::ElementsAre(384 * kLength, Dim(384), Dim(1)));
  EXPECT_TRUE(row_major_strides({}).empty());
}

TEST(Shape, TextRoundTrips) {
  const SymbolTable table = symbols();
  const Dim odd = Dim::symbol("odd, name]");
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{kBatch, kLength, 384},
                             Shape{min(kBatch, kLength), mod(kLength, 16), odd * 2}}) {
    const auto parsed = parse_shape(to_string(shape), table);
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    EXPECT_EQ(*parsed, shape);
  }
  EXPECT_EQ(to_string(Shape{kBatch, kLength, 384}), "[b, s, 384]");
  EXPECT_EQ(to_string(Shape{}), "[]");
}

TEST(Shape, RejectsMalformedText) {
  const SymbolTable table = symbols();
  for (const char* text : {"", "[", "]", "b, s", "[b,, s]", "[b s]", "[b, ]", "[q]", "[\"b]",
                           "[min(b, s]", "[b), (s]"}) {
    EXPECT_FALSE(parse_shape(text, table).has_value()) << text;
  }
}

TEST(Shape, Evaluates) {
  const Shape shape = {kBatch, kLength * 2, 3};
  EXPECT_THAT(evaluate(shape, {{"b", 2}, {"s", 16}}).value(), ::testing::ElementsAre(2, 32, 3));
  EXPECT_THAT(evaluate(shape, {{"b", 2}}).error().message, ::testing::HasSubstr("axis 1"));
  EXPECT_EQ(substitute(shape, {{"b", 2}}), (Shape{2, kLength * 2, 3}));
}

}  // namespace
}  // namespace opweld
