// Shape rules of plugins: sizes that are known and sizes that only a run knows.
#include "plugin/size_formula.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/builder.h"

namespace opweld {
namespace {

using ::testing::HasSubstr;

// x: [b, s, 8], y: [s, 1], z: absent; k = 5, list = [7, 9], text.
class SizeFormula : public ::testing::Test {
 protected:
  Expected<Shape> shape(const std::string& text) {
    OPWELD_TRY(const FormulaText formula, parse_formula(text));
    const OpContext context{operands_, attributes_};
    return build_shape(formula, {names_, context});
  }

  std::string shown(const std::string& text) {
    const auto result = shape(text);
    return result ? to_string(*result) : result.error().message;
  }

 private:
  Graph graph_;
  Dim b_ = Dim::symbol("b");
  Dim s_ = Dim::symbol("s");
  std::vector<Value*> operands_ = {graph_.add_input("x", {DType::F32, {b_, s_, 8}}),
                                   graph_.add_input("y", {DType::F32, {s_, 1}}), nullptr};
  std::vector<std::string> names_ = {"x", "y", "z"};
  Attributes attributes_ = {{"k", std::int64_t{5}}, {"list", Ints{7, 9}}, {"text", "t"}};
};

TEST_F(SizeFormula, PartsOfOperands) {
  EXPECT_EQ(shown("x"), "[b, s, 8]");
  EXPECT_EQ(shown("x[:-1] ++ [k]"), "[b, s, 5]");
  EXPECT_EQ(shown("x[1:]"), "[s, 8]");
  EXPECT_EQ(shown("x[1:2]"), "[s]");
  EXPECT_EQ(shown("x[2:1]"), "[]");
  EXPECT_EQ(shown("x[-100:100]"), "[b, s, 8]");
  EXPECT_EQ(shown("[]"), "[]");
  EXPECT_EQ(shown("list ++ [list[0]]"), "[7, 9, 7]");
  EXPECT_EQ(shown("broadcast(x, y)"), "[b, s, 8]");
}

TEST_F(SizeFormula, Arithmetic) {
  EXPECT_EQ(shown("[x[0] * x[1], 2 * x[-1] + 1]"), "[b*s, 17]");
  EXPECT_EQ(shown("[x[1] - x[1], -3 + 10]"), "[0, 7]");
  EXPECT_EQ(shown("[7 / 2, -7 / 2 + 10, 7 % 4, ceil_div(7, 2)]"), "[3, 6, 3, 4]");
  EXPECT_EQ(shown("[min(x[2], 3), max(x[2], 30), rank(x)]"), "[3, 30, 3]");
  // What is asked of a symbol holds for every value of it.
  const auto halves = shape("[x[1] / 2, x[1] - x[1] / 2]");
  ASSERT_TRUE(halves);
  Bindings five;
  five.set("s", 5);
  EXPECT_EQ((*halves)[0].evaluate(five), 2);
  EXPECT_EQ((*halves)[1].evaluate(five), 3);
}

TEST_F(SizeFormula, MistakesAreErrorsWithLineAndColumn) {
  EXPECT_EQ(shown("[x[3]]"), "line 1, column 3: 'x' has 3 sizes, so there is none at 3");
  EXPECT_THAT(shown("[x[-4]]"), HasSubstr("none at -4"));
  EXPECT_EQ(shown("[q]"), "line 1, column 2: 'q' is neither an operand nor an attribute");
  EXPECT_EQ(shown("z"), "line 1, column 1: operand 'z' is absent");
  EXPECT_THAT(shown("k"), HasSubstr("a size stands where a shape is wanted; put it in brackets"));
  EXPECT_THAT(shown("[x]"), HasSubstr("a shape stands where a size is wanted"));
  EXPECT_THAT(shown("[0.5]"), HasSubstr("a size is a whole number"));
  EXPECT_THAT(shown("[text]"), HasSubstr("attribute 'text' is neither an integer nor a list"));
  EXPECT_THAT(shown("[x[x[0]]]"), HasSubstr("a subscript is a number or an attribute"));
  EXPECT_THAT(shown("[1 / 0]"), HasSubstr("divided by zero"));
  EXPECT_THAT(shown("[9223372036854775807 * 2]"), HasSubstr("overflows 64 bits"));
  EXPECT_THAT(shown("[exp(1)]"), HasSubstr("there is no function 'exp' of sizes"));
  EXPECT_THAT(shown("[min(1)]"), HasSubstr("min takes two sizes"));
  EXPECT_THAT(shown("[rank(k)]"), HasSubstr("an operand is wanted here"));
  EXPECT_THAT(shown("broadcast(x, list)"), HasSubstr("an operand is wanted here"));
  EXPECT_THAT(shown("a = 1; [a]"), HasSubstr("formulas of sizes have no definitions"));
  EXPECT_THAT(shown("[x[0]"), HasSubstr("expected ']'"));
}

}  // namespace
}  // namespace opweld
