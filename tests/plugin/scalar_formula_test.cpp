// Expressions of plugins: what they compute, in which type, and what is refused where.
#include "plugin/scalar_formula.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace opweld {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kOperands = {"x", "y"};
const Attributes kAttributes = {{"alpha", 0.5}, {"n", std::int64_t{3}}, {"word", "a"}};

// The expression over two operands of a type; kNoExpr stands for an absent second one.
Expected<Expr> built(const std::string& text, DType operands, DType result, ExprPool& pool,
                     bool has_second = true, Arithmetic arithmetic = Arithmetic::Compute) {
  OPWELD_TRY(const FormulaText formula, parse_formula(text));
  const std::vector<Expr> arguments = {pool.input(0, operands),
                                       has_second ? pool.input(1, operands) : kNoExpr};
  return build_scalar(formula, {kOperands, arguments, kAttributes}, result, arithmetic, pool);
}

double real(const std::string& text, double x, double y = 0) {
  ExprPool pool;
  const auto expr = built(text, DType::F64, DType::F64, pool);
  EXPECT_TRUE(expr.has_value()) << (expr ? "" : expr.error().message);
  const ScalarValue inputs[] = {{x, 0}, {y, 0}};
  return expr ? evaluate(pool, *expr, inputs).real : HUGE_VAL;
}

std::int64_t whole(const std::string& text, std::int64_t x, std::int64_t y = 0,
                   DType type = DType::I32) {
  ExprPool pool;
  const auto expr = built(text, type, type, pool);
  EXPECT_TRUE(expr.has_value()) << (expr ? "" : expr.error().message);
  const ScalarValue inputs[] = {{0, x}, {0, y}};
  return expr ? evaluate(pool, *expr, inputs).integer : -999;
}

std::string refused(const std::string& text, DType type = DType::F32, DType result = DType::F32) {
  ExprPool pool;
  const auto expr = built(text, type, result, pool);
  return expr ? "built" : expr.error().message;
}

TEST(ScalarFormula, PrecedenceIsThatOfC) {
  EXPECT_EQ(real("1 + 2 * x - 3", 5), 8);
  EXPECT_EQ(real("x - 1 - 2", 10), 7);
  EXPECT_EQ(real("x / 2 / 4", 16), 2);
  EXPECT_EQ(real("-x * 2", 3), -6);
  EXPECT_EQ(real("2*x-1", 3), 5);
  EXPECT_EQ(real("2 * -x", 3), -6);
  EXPECT_EQ(real("(x + y) * 2", 3, 4), 14);
  EXPECT_EQ(real("x > 1 && y > 1 || x == 0 ? 1 : 2", 0), 1);
  EXPECT_EQ(real("!(x > y) ? 1 : x >= 8 ? 3 : 2", 7, 4), 2);
  EXPECT_EQ(real("x != y ? x : -y", 2, 2), -2);
}

TEST(ScalarFormula, FunctionsAreThoseOfTheScalarLanguage) {
  constexpr double kX = 0.7;
  EXPECT_DOUBLE_EQ(real("exp(x)", kX), std::exp(kX));
  EXPECT_DOUBLE_EQ(real("log(x)", kX), std::log(kX));
  EXPECT_DOUBLE_EQ(real("tanh(x)", kX), std::tanh(kX));
  EXPECT_DOUBLE_EQ(real("erf(x)", kX), std::erf(kX));
  EXPECT_DOUBLE_EQ(real("sqrt(x) + sin(x) + cos(x)", kX),
                   std::sqrt(kX) + std::sin(kX) + std::cos(kX));
  EXPECT_DOUBLE_EQ(real("sigmoid(x)", kX), 1 / (1 + std::exp(-kX)));
  EXPECT_DOUBLE_EQ(real("pow(x, 2.5)", kX), std::pow(kX, 2.5));
  EXPECT_EQ(real("floor(x) + 10 * ceil(x) + 100 * round(x)", 2.5), 2 + 30 + 200);
  EXPECT_EQ(real("abs(x) + sign(x)", -4), 3);
  EXPECT_EQ(real("x % 3", -1), 2);
  EXPECT_EQ(real("fmod(x, 3)", -1), -1);
  EXPECT_EQ(real("fma(x, y, 1)", 3, 4), 13);
  EXPECT_EQ(real("select(gt(x, y), 1, 2)", 3, 4), 2);
  EXPECT_EQ(real("min(x, y) - max(x, y)", 3, 5), -2);
  EXPECT_TRUE(std::isnan(real("max(x, y)", std::nan(""), 5)));
  EXPECT_EQ(real("is_nan(x) ? 1 : is_inf(x) ? 2 : 3", std::numeric_limits<double>::infinity()), 2);
}

TEST(ScalarFormula, NamesAreOperandsAttributesAndDefinitions) {
  EXPECT_EQ(real("alpha * x + n", 4), 5);
  EXPECT_EQ(real("a = x + 1; b = a * a; b - a", 2), 6);
  EXPECT_EQ(real("in0 - in1", 5, 3), 2);
  EXPECT_EQ(real("t0 = add(in0, 1.0); div(t0, t0)", 5), 1) << "as the scalar language prints it";
  EXPECT_EQ(real("x == -inf ? 0 : x", -std::numeric_limits<double>::infinity()), 0);
}

TEST(ScalarFormula, NumbersTakeTheTypeOfWhatTheyMeet) {
  // In f64, and rounded once: in f32 it would be another number.
  EXPECT_EQ(real("x * (1 / 3.0)", 1), 1 / 3.0);
  EXPECT_EQ(real("1 / 2 * x", 1), 0) << "whole numbers divide as in C";
  EXPECT_EQ(real("1.0 / 2 * x", 1), 0.5);
  EXPECT_EQ(real("exp(n) * x", 1), std::exp(3.0)) << "an attribute is a number";
  EXPECT_EQ(real("5", 1), 5);
  EXPECT_EQ(whole("7 / 2 + x", 1), 4);
  EXPECT_EQ(whole("x + 9223372036854775807 - 9223372036854775807", 1, 0, DType::I64), 1);
}

TEST(ScalarFormula, IntegersWrapAndDivideAsDocumented) {
  EXPECT_EQ(whole("x * x", 65536), 0);
  EXPECT_EQ(whole("x / y", -7, 2), -3);
  EXPECT_EQ(whole("x / y", 7, 0), 0);
  EXPECT_EQ(whole("x % y", -7, 2), 1);
  EXPECT_EQ(whole("x % y", 7, 0), 0);
  EXPECT_EQ(whole("shift_left(x, 3) + xor(x, 1)", 4), 37);
  EXPECT_EQ(whole("convert_i32(convert_f32(x) * 0.5)", 7), 3);
}

TEST(ScalarFormula, AbsentOperandsHaveDefaults) {
  ExprPool pool;
  const auto with = built("default(y, 2 * x)", DType::F64, DType::F64, pool, false);
  ASSERT_TRUE(with);
  const ScalarValue inputs[] = {{4, 0}, {0, 0}};
  EXPECT_EQ(evaluate(pool, *with, inputs).real, 8);
  const auto without = built("x + y", DType::F64, DType::F64, pool, false);
  ASSERT_FALSE(without);
  EXPECT_THAT(without.error().message,
              HasSubstr("line 1, column 5: operand 'y' is absent; default(y, VALUE)"));
  EXPECT_EQ(real("default(y, 2)", 1, 7), 7);
}

TEST(ScalarFormula, WideArithmeticHasOneFloatType) {
  const auto formula = parse_formula("convert_f32(x) + convert_f64(y)");
  ASSERT_TRUE(formula);
  ExprPool pool;
  const auto expr = built("convert_f32(x) + convert_f64(y)", DType::F64, DType::F64, pool, true,
                          Arithmetic::Wide);
  ASSERT_TRUE(expr) << expr.error().message;
  const ScalarValue inputs[] = {{0.1, 0}, {0.2, 0}};
  EXPECT_EQ(evaluate(pool, *expr, inputs).real, 0.1 + 0.2);
  EXPECT_THAT(refused("convert_f32(x) + convert_f64(y)"),
              HasSubstr("line 1, column 16: add of f32 and f64; convert one of them"));
}

TEST(ScalarFormula, MistakesAreErrorsWithLineAndColumn) {
  EXPECT_THAT(refused("x +"), HasSubstr("line 1, column 4: expected a number, a name or '('"));
  EXPECT_THAT(refused("x\n  @ 2"), HasSubstr("line 2, column 3: expected an operator or the end"));
  EXPECT_THAT(refused("x x"), HasSubstr("column 3"));
  EXPECT_THAT(refused("(x"), HasSubstr("expected ')'"));
  EXPECT_THAT(refused("a = x"), HasSubstr("expected ';'"));
  EXPECT_THAT(refused("x = 1; x"), HasSubstr("'x' is defined already"));
  EXPECT_THAT(refused("a = x; a = x; a"), HasSubstr("'a' is defined already"));
  EXPECT_THAT(refused("x + word"), HasSubstr("'word' is neither an integer nor a real"));
  EXPECT_THAT(refused("x ? 1 : 2"), HasSubstr("the condition is no truth value"));
  EXPECT_THAT(refused("x + (x > y)"), HasSubstr("add of f32 and bool"));
  EXPECT_THAT(refused("x + true"), HasSubstr("a truth value stands where f32 is wanted"));
  EXPECT_THAT(refused("true + 1"), HasSubstr("add of a number and a truth value"));
  EXPECT_THAT(refused("x + 0.5", DType::I32, DType::I32), HasSubstr("the real number 0.5"));
  EXPECT_THAT(refused("x + 3000000000", DType::I32, DType::I32), HasSubstr("does not fit i32"));
  EXPECT_THAT(refused("99999999999999999999 + x"), HasSubstr("the number is out of range"));
  EXPECT_THAT(refused("1e999 + x"), HasSubstr("the number is out of range"));
  EXPECT_THAT(refused("convert_f16(x)"), HasSubstr("there is no function 'convert_f16'"));
  EXPECT_THAT(refused("constant(x)"), HasSubstr("there is no function 'constant'"));
  EXPECT_THAT(refused("x[0]"), HasSubstr("lists and subscripts belong to shapes"));
  EXPECT_THAT(refused("default(3, x)"), HasSubstr("default() takes an operand and a value"));
  EXPECT_EQ(refused("x"), "built");
}

TEST(ScalarFormula, HostileTextsAreRefusedAndNotFollowed) {
  EXPECT_THAT(refused(std::string(100000, '(')), HasSubstr("nested too deep"));
  EXPECT_THAT(refused(std::string(100000, '-') + "x"), HasSubstr("nested too deep"));
  std::string sum = "x";
  for (int i = 0; i < 100000; ++i) sum += "+x";
  EXPECT_THAT(refused(sum), HasSubstr("too long"));
  EXPECT_THAT(refused(std::string("x\0y", 3)), HasSubstr("column 2"));
}

}  // namespace
}  // namespace opweld
