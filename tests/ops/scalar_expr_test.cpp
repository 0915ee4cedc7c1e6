#include "ops/scalar_expr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace opweld {
namespace {

constexpr double kInf = INFINITY;
constexpr double kNan = NAN;
constexpr std::int64_t kMin64 = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax64 = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin32 = std::numeric_limits<std::int32_t>::min();
constexpr std::int64_t kMax32 = std::numeric_limits<std::int32_t>::max();

// ---- evaluation, never folded since the arguments are inputs ----

ScalarValue apply(ExprKind kind, DType type, const std::vector<ScalarValue>& values) {
  ExprPool pool;
  std::vector<Expr> arguments;
  for (std::size_t i = 0; i < values.size(); ++i) {
    arguments.push_back(pool.input(static_cast<int>(i), type));
  }
  return evaluate(pool, pool.make(kind, arguments), values);
}

double f64(ExprKind kind, double a) {
  return apply(kind, DType::F64, {{a, 0}}).real;
}
double f64(ExprKind kind, double a, double b) {
  return apply(kind, DType::F64, {{a, 0}, {b, 0}}).real;
}
double f32(ExprKind kind, double a) {
  return apply(kind, DType::F32, {{a, 0}}).real;
}
double f32(ExprKind kind, double a, double b) {
  return apply(kind, DType::F32, {{a, 0}, {b, 0}}).real;
}
std::int64_t i64(ExprKind kind, std::int64_t a) {
  return apply(kind, DType::I64, {{0, a}}).integer;
}
std::int64_t i64(ExprKind kind, std::int64_t a, std::int64_t b) {
  return apply(kind, DType::I64, {{0, a}, {0, b}}).integer;
}
std::int64_t i32(ExprKind kind, std::int64_t a, std::int64_t b) {
  return apply(kind, DType::I32, {{0, a}, {0, b}}).integer;
}
bool compare(ExprKind kind, double a, double b) {
  return apply(kind, DType::F32, {{a, 0}, {b, 0}}).integer != 0;
}

std::int64_t convert(DType from, ScalarValue value, DType to) {
  ExprPool pool;
  return evaluate(pool, pool.convert(pool.input(0, from), to), std::vector{value}).integer;
}
double convert_to_float(DType from, ScalarValue value, DType to) {
  ExprPool pool;
  return evaluate(pool, pool.convert(pool.input(0, from), to), std::vector{value}).real;
}

bool is_negative_zero(double value) {
  return value == 0 && std::signbit(value);
}
bool is_positive_zero(double value) {
  return value == 0 && !std::signbit(value);
}

TEST(ScalarEvaluate, ArithmeticIsDoneInItsType) {
  EXPECT_EQ(f32(ExprKind::Add, 16777216, 1), 16777216) << "2^24 + 1 is no float";
  EXPECT_EQ(f64(ExprKind::Add, 16777216, 1), 16777217);
  EXPECT_EQ(f32(ExprKind::Div, 1, 3), 0.3333333432674408);
  EXPECT_EQ(f64(ExprKind::Div, 1, 3), 0.3333333333333333);
  EXPECT_EQ(f32(ExprKind::Mul, 3e38F, 10), kInf);
  EXPECT_EQ(f32(ExprKind::Sub, 1e-45F, 0), 1.401298464324817e-45) << "subnormals are kept";
  EXPECT_EQ(f64(ExprKind::Div, 1, 0), kInf);
  EXPECT_EQ(f64(ExprKind::Div, 1, -0.0), -kInf);
  EXPECT_TRUE(std::isnan(f64(ExprKind::Div, 0, 0)));
  EXPECT_TRUE(std::isnan(f64(ExprKind::Sub, kInf, kInf)));
}

TEST(ScalarEvaluate, FmaRoundsOnce) {
  // (1 + 2^-12)^2 - 1 - 2^-11 = 2^-24 exactly; rounding the square to f32 first gives 0.
  const double a = 1 + 0x1p-12;
  const double c = -1 - 0x1p-11;
  EXPECT_EQ(apply(ExprKind::Fma, DType::F32, {{a, 0}, {a, 0}, {c, 0}}).real, 0x1p-24);
  EXPECT_EQ(f32(ExprKind::Add, f32(ExprKind::Mul, a, a), c), 0);
}

// numpy.mod and numpy.fmod of numpy 1.26.
TEST(ScalarEvaluate, ModFollowsTheDivisorFmodTheDividend) {
  EXPECT_EQ(f64(ExprKind::Mod, 5, 3), 2);
  EXPECT_EQ(f64(ExprKind::Mod, -5, 3), 1);
  EXPECT_EQ(f64(ExprKind::Mod, 5, -3), -1);
  EXPECT_EQ(f64(ExprKind::Mod, -5, -3), -2);
  EXPECT_EQ(f64(ExprKind::Mod, -5.5, 2), 0.5);
  EXPECT_EQ(f64(ExprKind::Mod, 5, kInf), 5);
  EXPECT_EQ(f64(ExprKind::Mod, -5, kInf), kInf);
  EXPECT_TRUE(is_positive_zero(f64(ExprKind::Mod, -6, 3)));
  EXPECT_TRUE(is_negative_zero(f64(ExprKind::Mod, 6, -3)));
  EXPECT_TRUE(std::isnan(f64(ExprKind::Mod, 5, 0)));
  EXPECT_TRUE(std::isnan(f64(ExprKind::Mod, kInf, 2)));
  EXPECT_EQ(f64(ExprKind::Fmod, 5, -3), 2);
  EXPECT_EQ(f64(ExprKind::Fmod, -5, 3), -2);
  EXPECT_TRUE(is_negative_zero(f64(ExprKind::Fmod, -6, 3)));
  EXPECT_TRUE(std::isnan(f64(ExprKind::Fmod, 5, 0)));
  EXPECT_EQ(i64(ExprKind::Mod, 5, 3), 2);
  EXPECT_EQ(i64(ExprKind::Mod, -5, 3), 1);
  EXPECT_EQ(i64(ExprKind::Mod, 5, -3), -1);
  EXPECT_EQ(i64(ExprKind::Mod, -6, 3), 0);
  EXPECT_EQ(i64(ExprKind::Fmod, -5, 3), -2);
  EXPECT_EQ(i64(ExprKind::Fmod, 5, -3), 2);
  for (const ExprKind kind : {ExprKind::Mod, ExprKind::Fmod, ExprKind::Div}) {
    EXPECT_EQ(i64(kind, 5, 0), 0);
    EXPECT_EQ(i32(kind, 5, 0), 0);
  }
  EXPECT_EQ(i64(ExprKind::Mod, kMin64, -1), 0);
  EXPECT_EQ(i32(ExprKind::Fmod, kMin32, -1), 0);
}

TEST(ScalarEvaluate, MinAndMaxPropagateNan) {
  for (const ExprKind kind : {ExprKind::Min, ExprKind::Max}) {
    EXPECT_TRUE(std::isnan(f32(kind, kNan, 1)));
    EXPECT_TRUE(std::isnan(f32(kind, 1, kNan)));
    EXPECT_TRUE(std::isnan(f64(kind, kNan, kInf)));
  }
  EXPECT_EQ(f32(ExprKind::Min, -kInf, 1), -kInf);
  EXPECT_EQ(f32(ExprKind::Max, -1, 1), 1);
  EXPECT_TRUE(is_negative_zero(f32(ExprKind::Min, 0.0, -0.0)));
  EXPECT_TRUE(is_negative_zero(f32(ExprKind::Min, -0.0, 0.0)));
  EXPECT_TRUE(is_positive_zero(f32(ExprKind::Max, 0.0, -0.0)));
  EXPECT_TRUE(is_positive_zero(f32(ExprKind::Max, -0.0, 0.0)));
  EXPECT_EQ(i64(ExprKind::Min, kMin64, kMax64), kMin64);
  EXPECT_EQ(i64(ExprKind::Max, kMin64, kMax64), kMax64);
}

TEST(ScalarEvaluate, IntegersWrapToTheirWidth) {
  EXPECT_EQ(i64(ExprKind::Add, kMax64, 1), kMin64);
  EXPECT_EQ(i64(ExprKind::Sub, kMin64, 1), kMax64);
  EXPECT_EQ(i64(ExprKind::Mul, kMax64, 2), -2);
  EXPECT_EQ(i64(ExprKind::Neg, kMin64), kMin64);
  EXPECT_EQ(i64(ExprKind::Abs, kMin64), kMin64);
  EXPECT_EQ(i64(ExprKind::Abs, -7), 7);
  EXPECT_EQ(i64(ExprKind::Div, kMin64, -1), kMin64);
  EXPECT_EQ(i64(ExprKind::Div, -7, 2), -3);
  EXPECT_EQ(i32(ExprKind::Add, kMax32, 1), kMin32);
  EXPECT_EQ(i32(ExprKind::Mul, 65536, 65536), 0);
  EXPECT_EQ(i32(ExprKind::Div, kMin32, -1), kMin32);
  EXPECT_EQ(i64(ExprKind::Sign, -9), -1);
  EXPECT_EQ(i64(ExprKind::Sign, 0), 0);
}

TEST(ScalarEvaluate, IntegerPowersWrapAndTruncate) {
  EXPECT_EQ(i64(ExprKind::Pow, 3, 4), 81);
  EXPECT_EQ(i64(ExprKind::Pow, -2, 3), -8);
  EXPECT_EQ(i64(ExprKind::Pow, 0, 0), 1);
  EXPECT_EQ(i64(ExprKind::Pow, 2, 64), 0);
  EXPECT_EQ(i32(ExprKind::Pow, 2, 31), kMin32);
  EXPECT_EQ(i64(ExprKind::Pow, 2, -1), 0);
  EXPECT_EQ(i64(ExprKind::Pow, 1, -5), 1);
  EXPECT_EQ(i64(ExprKind::Pow, -1, -5), -1);
  EXPECT_EQ(i64(ExprKind::Pow, -1, kMin64), 1);
  EXPECT_EQ(i64(ExprKind::Pow, 0, -1), 0);
}

TEST(ScalarEvaluate, ShiftsBeyondTheWidthGiveZero) {
  EXPECT_EQ(i64(ExprKind::ShiftLeft, 1, 63), kMin64);
  EXPECT_EQ(i64(ExprKind::ShiftLeft, 1, 64), 0);
  EXPECT_EQ(i64(ExprKind::ShiftRight, -8, 1), -4);
  EXPECT_EQ(i64(ExprKind::ShiftRight, -8, 64), 0);
  EXPECT_EQ(i64(ExprKind::ShiftRight, 8, -1), 0);
  EXPECT_EQ(i32(ExprKind::ShiftLeft, 1, 31), kMin32);
  EXPECT_EQ(i32(ExprKind::ShiftLeft, 1, 32), 0);
  EXPECT_EQ(i32(ExprKind::ShiftRight, -1, 31), -1);
}

TEST(ScalarEvaluate, BitsAndLogic) {
  EXPECT_EQ(i64(ExprKind::And, 12, 10), 8);
  EXPECT_EQ(i64(ExprKind::Or, 12, 10), 14);
  EXPECT_EQ(i64(ExprKind::Xor, 12, 10), 6);
  EXPECT_EQ(i64(ExprKind::Not, 0), -1);
  for (const std::int64_t a : {0, 1}) {
    EXPECT_EQ(apply(ExprKind::Not, DType::Bool, {{0, a}}).integer, 1 - a);
    for (const std::int64_t b : {0, 1}) {
      EXPECT_EQ(apply(ExprKind::And, DType::Bool, {{0, a}, {0, b}}).integer, a * b);
      EXPECT_EQ(apply(ExprKind::Or, DType::Bool, {{0, a}, {0, b}}).integer, std::max(a, b));
      EXPECT_EQ(apply(ExprKind::Xor, DType::Bool, {{0, a}, {0, b}}).integer, a == b ? 0 : 1);
    }
  }
}

TEST(ScalarEvaluate, ComparisonsWithNanAreFalseButNe) {
  for (const auto& [a, b] : {std::pair{kNan, 1.0}, {1.0, kNan}, {kNan, kNan}}) {
    EXPECT_FALSE(compare(ExprKind::Eq, a, b));
    EXPECT_TRUE(compare(ExprKind::Ne, a, b));
    EXPECT_FALSE(compare(ExprKind::Lt, a, b));
    EXPECT_FALSE(compare(ExprKind::Le, a, b));
  }
  EXPECT_TRUE(compare(ExprKind::Eq, 0.0, -0.0));
  EXPECT_TRUE(compare(ExprKind::Le, 1, 1));
  EXPECT_FALSE(compare(ExprKind::Lt, 1, 1));
  EXPECT_TRUE(compare(ExprKind::Lt, -kInf, kInf));
  EXPECT_EQ(apply(ExprKind::Lt, DType::I64, {{0, kMin64}, {0, kMax64}}).integer, 1);
  EXPECT_EQ(apply(ExprKind::IsNan, DType::F32, {{kNan, 0}}).integer, 1);
  EXPECT_EQ(apply(ExprKind::IsNan, DType::F32, {{kInf, 0}}).integer, 0);
  EXPECT_EQ(apply(ExprKind::IsInf, DType::F32, {{-kInf, 0}}).integer, 1);
  EXPECT_EQ(apply(ExprKind::IsInf, DType::F32, {{kNan, 0}}).integer, 0);
}

// Values from mpmath with 30 digits.
TEST(ScalarEvaluate, ElementaryFunctions) {
  EXPECT_DOUBLE_EQ(f64(ExprKind::Exp, 1), 2.718281828459045);
  EXPECT_DOUBLE_EQ(f64(ExprKind::Log, 10), 2.302585092994046);
  EXPECT_DOUBLE_EQ(f64(ExprKind::Tanh, 0.5), 0.46211715726000975);
  EXPECT_DOUBLE_EQ(f64(ExprKind::Erf, 0.5), 0.5204998778130465);
  EXPECT_DOUBLE_EQ(f64(ExprKind::Sin, 1), 0.8414709848078965);
  EXPECT_DOUBLE_EQ(f64(ExprKind::Cos, 1), 0.5403023058681398);
  EXPECT_DOUBLE_EQ(f64(ExprKind::Pow, 2, 0.5), 1.4142135623730951);
  EXPECT_DOUBLE_EQ(f64(ExprKind::Sigmoid, 1), 0.7310585786300049);
  EXPECT_DOUBLE_EQ(f64(ExprKind::Sigmoid, -40), 4.248354255291589e-18);
  EXPECT_EQ(f64(ExprKind::Sigmoid, -800), 0);
  EXPECT_EQ(f64(ExprKind::Sigmoid, 800), 1);
  EXPECT_EQ(f64(ExprKind::Sigmoid, -kInf), 0);
  EXPECT_TRUE(std::isnan(f64(ExprKind::Sigmoid, kNan)));
  EXPECT_EQ(f32(ExprKind::Exp, 1), 2.71828174591064453125) << "rounded to f32";
  EXPECT_EQ(f32(ExprKind::Exp, 89), kInf);
  EXPECT_EQ(f64(ExprKind::Sqrt, 2), 1.4142135623730951);
  EXPECT_TRUE(std::isnan(f64(ExprKind::Sqrt, -1)));
  EXPECT_EQ(f64(ExprKind::Rsqrt, 4), 0.5);
  EXPECT_EQ(f64(ExprKind::Rsqrt, 0), kInf);
  EXPECT_EQ(f64(ExprKind::Reciprocal, -0.0), -kInf);
}

TEST(ScalarEvaluate, RoundingAndSigns) {
  EXPECT_EQ(f32(ExprKind::Round, 0.5), 0);
  EXPECT_EQ(f32(ExprKind::Round, 1.5), 2);
  EXPECT_EQ(f32(ExprKind::Round, 2.5), 2);
  EXPECT_TRUE(is_negative_zero(f32(ExprKind::Round, -0.5)));
  EXPECT_EQ(f32(ExprKind::Floor, -1.5), -2);
  EXPECT_EQ(f32(ExprKind::Ceil, -1.5), -1);
  EXPECT_TRUE(is_negative_zero(f64(ExprKind::Neg, 0.0)));
  EXPECT_TRUE(is_positive_zero(f64(ExprKind::Abs, -0.0)));
  EXPECT_EQ(f64(ExprKind::Sign, -3), -1);
  EXPECT_TRUE(is_positive_zero(f64(ExprKind::Sign, -0.0)));
  EXPECT_TRUE(std::isnan(f64(ExprKind::Sign, kNan)));
}

TEST(ScalarEvaluate, ConversionsSaturate) {
  EXPECT_EQ(convert(DType::F32, {2.9, 0}, DType::I32), 2);
  EXPECT_EQ(convert(DType::F32, {-2.9, 0}, DType::I64), -2);
  EXPECT_EQ(convert(DType::F32, {kNan, 0}, DType::I32), 0);
  EXPECT_EQ(convert(DType::F32, {1e10, 0}, DType::I32), kMax32);
  EXPECT_EQ(convert(DType::F64, {-1e10, 0}, DType::I32), kMin32);
  EXPECT_EQ(convert(DType::F64, {2147483647.5, 0}, DType::I32), kMax32);
  EXPECT_EQ(convert(DType::F64, {-2147483648.5, 0}, DType::I32), kMin32);
  EXPECT_EQ(convert(DType::F32, {kInf, 0}, DType::I64), kMax64);
  EXPECT_EQ(convert(DType::F32, {-kInf, 0}, DType::I64), kMin64);
  EXPECT_EQ(convert(DType::F32, {kNan, 0}, DType::Bool), 1);
  EXPECT_EQ(convert(DType::F32, {-0.0, 0}, DType::Bool), 0);
  EXPECT_EQ(convert(DType::I64, {0, 256}, DType::Bool), 1);
  EXPECT_EQ(convert(DType::Bool, {0, 1}, DType::I32), 1);
  EXPECT_EQ(convert(DType::I64, {0, kMax32 + 2}, DType::I32), kMin32 + 1);
  EXPECT_EQ(convert_to_float(DType::F64, {0.1, 0}, DType::F32), 0.10000000149011612);
  EXPECT_EQ(convert_to_float(DType::Bool, {0, 1}, DType::F32), 1);
  EXPECT_EQ(convert_to_float(DType::I64, {0, kMax64}, DType::F64), 0x1p63);
  EXPECT_EQ(convert_to_float(DType::I64, {0, (1LL << 60) + (1LL << 36) + 1}, DType::F32),
            0x1p60 + 0x1p37)
      << "rounded once";
}

TEST(ScalarEvaluate, StoresRoundAndWrap) {
  const auto store = [](DType type, ScalarValue value, DType storage) {
    ExprPool pool;
    return evaluate(pool, pool.store(pool.input(0, type), storage), std::vector{value});
  };
  EXPECT_EQ(store(DType::F32, {0.1F, 0}, DType::F16).real, 0.0999755859375);
  EXPECT_EQ(store(DType::F32, {70000, 0}, DType::F16).real, kInf);
  EXPECT_EQ(store(DType::F32, {0.1F, 0}, DType::BF16).real, 0.10009765625);
  EXPECT_EQ(store(DType::I32, {0, 300}, DType::I8).integer, 44);
  EXPECT_EQ(store(DType::I32, {0, -1}, DType::U8).integer, 255);
  EXPECT_EQ(store(DType::I32, {0, 40000}, DType::I16).integer, -25536);
}

TEST(ScalarEvaluate, SelectTakesOneSideOnly) {
  ExprPool pool;
  const Expr select =
      pool.select(pool.input(0, DType::Bool), pool.input(1, DType::F32), pool.input(2, DType::F32));
  EXPECT_EQ(evaluate(pool, select, std::vector<ScalarValue>{{0, 1}, {5, 0}, {kNan, 0}}).real, 5);
  EXPECT_TRUE(
      std::isnan(evaluate(pool, select, std::vector<ScalarValue>{{0, 0}, {5, 0}, {kNan, 0}}).real));
}

TEST(ScalarInterpreter, KnowsSizesAndLoops) {
  ExprPool pool;
  const Dim s = Dim::symbol("s");
  const Expr index = pool.binary(
      ExprKind::Add, pool.binary(ExprKind::Mul, pool.loop(1), pool.size_of(s * 2)), pool.loop(0));
  auto interpreter = ScalarInterpreter::make(pool, index, {{"s", 5}});
  ASSERT_TRUE(interpreter);
  EXPECT_EQ((*interpreter)({}, std::vector<std::int64_t>{3, 4}).integer, 43);
  EXPECT_EQ((*interpreter)({}, std::vector<std::int64_t>{0, 1}).integer, 10) << "again";
  EXPECT_FALSE(ScalarInterpreter::make(pool, index));
}

// ---- the pool ----

TEST(ExprPool, EqualExpressionsAreOne) {
  ExprPool pool;
  const Expr x = pool.input(0, DType::F32);
  EXPECT_EQ(pool.input(0, DType::F32), x);
  EXPECT_NE(pool.input(1, DType::F32), x);
  EXPECT_NE(pool.input(0, DType::F64), x);
  EXPECT_EQ(pool.unary(ExprKind::Exp, x), pool.unary(ExprKind::Exp, x));
  EXPECT_NE(pool.binary(ExprKind::Sub, x, pool.input(1, DType::F32)),
            pool.binary(ExprKind::Sub, pool.input(1, DType::F32), x));
  EXPECT_NE(pool.store(x, DType::F16), pool.store(x, DType::BF16));
  EXPECT_NE(pool.constant(0.0, DType::F32), pool.constant(-0.0, DType::F32));
  EXPECT_NE(pool.constant(1, DType::F32), pool.constant(1, DType::F64));
  EXPECT_EQ(pool.constant(NAN, DType::F32), pool.constant(NAN, DType::F32));
  EXPECT_EQ(pool.size_of(Dim::symbol("s")), pool.size_of(Dim::symbol("s")));
  EXPECT_EQ(pool.size_of(3), pool.integer(3));
}

TEST(ExprPool, ConstantsAreOfTheirType) {
  ExprPool pool;
  EXPECT_EQ(pool[pool.constant(0.1, DType::F32)].number, static_cast<double>(0.1F));
  EXPECT_EQ(pool[pool.constant(2.9, DType::I32)].integer, 2);
  EXPECT_EQ(pool[pool.constant(7, DType::Bool)].number, 1);
  EXPECT_EQ(pool[pool.integer(kMax32 + 1, DType::I32)].integer, kMin32);
  EXPECT_EQ(pool[pool.integer(3, DType::F64)].number, 3);
}

TEST(ExprPool, FoldsWhatRunTimeWouldGiveBitForBit) {
  ExprPool pool;
  const auto real = [&](double value) { return pool.constant(value, DType::F32); };
  const auto whole = [&](std::int64_t value) { return pool.integer(value, DType::I32); };
  EXPECT_EQ(pool.binary(ExprKind::Add, real(0.1), real(0.2)), real(0.1F + 0.2F));
  EXPECT_EQ(pool.binary(ExprKind::Div, real(1), real(-0.0)), real(-kInf));
  EXPECT_EQ(pool.unary(ExprKind::Neg, real(0)), real(-0.0));
  EXPECT_EQ(pool.unary(ExprKind::Sqrt, real(2)), real(std::sqrt(2.0F)));
  EXPECT_EQ(pool.binary(ExprKind::Mul, whole(kMax32), whole(2)), whole(-2));
  EXPECT_EQ(pool.binary(ExprKind::Div, whole(1), whole(0)), whole(0));
  EXPECT_EQ(pool.binary(ExprKind::Lt, real(1), real(2)), pool.constant(1, DType::Bool));
  EXPECT_EQ(
      pool.binary(ExprKind::And, pool.constant(1, DType::Bool), pool.constant(0, DType::Bool)),
      pool.constant(0, DType::Bool));
  EXPECT_EQ(pool.convert(real(2.5), DType::I64), pool.integer(2));
  EXPECT_EQ(pool.store(whole(300), DType::I8), whole(44));
  const Expr x = pool.input(0, DType::F32);
  const Expr y = pool.input(1, DType::F32);
  EXPECT_EQ(pool.select(pool.constant(1, DType::Bool), x, y), x);
  EXPECT_EQ(pool.select(pool.input(2, DType::Bool), x, x), x);
}

TEST(ExprPool, LeavesEverythingElseToRunTime) {
  ExprPool pool;
  const auto real = [&](double value) { return pool.constant(value, DType::F32); };
  const auto kept = [&](Expr expr, ExprKind kind) { return pool[expr].kind == kind; };
  // Elementary functions are as good as the backend makes them; a NaN has the processor's bits; the
  // sign of the smaller of two zeros is the backend's.
  EXPECT_TRUE(kept(pool.unary(ExprKind::Exp, real(0)), ExprKind::Exp));
  EXPECT_TRUE(kept(pool.unary(ExprKind::Rsqrt, real(4)), ExprKind::Rsqrt));
  EXPECT_TRUE(kept(pool.binary(ExprKind::Div, real(0), real(0)), ExprKind::Div));
  EXPECT_TRUE(kept(pool.binary(ExprKind::Add, real(kNan), real(0)), ExprKind::Add));
  EXPECT_TRUE(kept(pool.binary(ExprKind::Min, real(0.0), real(-0.0)), ExprKind::Min));
  const Expr x = pool.input(0, DType::F32);
  EXPECT_TRUE(kept(pool.binary(ExprKind::Add, x, real(0)), ExprKind::Add)) << "-0 + 0 is +0";
  EXPECT_TRUE(kept(pool.binary(ExprKind::Mul, x, real(1)), ExprKind::Mul));
  EXPECT_TRUE(kept(pool.binary(ExprKind::Mul, x, real(0)), ExprKind::Mul)) << "NaN * 0 is NaN";
  EXPECT_TRUE(kept(pool.binary(ExprKind::Sub, x, x), ExprKind::Sub));
  EXPECT_TRUE(kept(pool.binary(ExprKind::Eq, x, x), ExprKind::Eq));
  EXPECT_TRUE(kept(pool.unary(ExprKind::Neg, pool.unary(ExprKind::Neg, x)), ExprKind::Neg));
}

// Folding and interpreting agree on every kind, so constants cannot change a result.
TEST(ExprPool, FoldingAgreesWithEvaluation) {
  const double reals[] = {0.0, -0.0, 1.0, -2.5, 0.1, 1e30, -1e-40, kInf, -kInf, kNan};
  const std::int64_t integers[] = {0, 1, -1, 7, kMin32, kMax32, 33};
  for (int kind = static_cast<int>(ExprKind::Add); kind <= static_cast<int>(ExprKind::IsInf);
       ++kind) {
    const auto op = static_cast<ExprKind>(kind);
    for (const bool floats : {true, false}) {
      const bool real_only = (op >= ExprKind::Exp && op <= ExprKind::Reciprocal) ||
                             op == ExprKind::Fma || op == ExprKind::IsNan || op == ExprKind::IsInf;
      const bool integer_only = op >= ExprKind::And && op <= ExprKind::ShiftRight;
      if (floats ? integer_only : real_only) continue;
      const DType type = floats ? DType::F32 : DType::I32;
      const std::size_t count = floats ? std::size(reals) : std::size(integers);
      for (std::size_t i = 0; i < count * count; ++i) {
        ExprPool pool;
        std::vector<Expr> inputs;
        std::vector<Expr> constants;
        std::vector<ScalarValue> values;
        for (const std::size_t pick : {i % count, i / count, (i * 3) % count}) {
          if (static_cast<int>(inputs.size()) == arity(op)) break;
          inputs.push_back(pool.input(static_cast<int>(inputs.size()), type));
          constants.push_back(floats ? pool.constant(reals[pick], type)
                                     : pool.integer(integers[pick], type));
          values.push_back(
              {floats ? static_cast<float>(reals[pick]) : 0.0, floats ? 0 : integers[pick]});
        }
        const ScalarValue direct = evaluate(pool, pool.make(op, inputs), values);
        const ScalarValue folded = evaluate(pool, pool.make(op, constants), {});
        if (std::isnan(direct.real)) {
          EXPECT_TRUE(std::isnan(folded.real));
        } else {
          EXPECT_EQ(std::bit_cast<std::uint64_t>(direct.real),
                    std::bit_cast<std::uint64_t>(folded.real))
              << to_string(op);
        }
        EXPECT_EQ(direct.integer, folded.integer) << to_string(op);
      }
    }
  }
}

TEST(ExprPool, StoringTwiceIsStoringOnce) {
  ExprPool pool;
  const Expr x = pool.input(0, DType::F32);
  const Expr stored = pool.store(x, DType::F16);
  EXPECT_EQ(pool.store(stored, DType::F16), stored);
  EXPECT_NE(pool.store(stored, DType::BF16), stored);
  EXPECT_EQ(pool.store(x, DType::F32), x);
  EXPECT_EQ(pool.convert(x, DType::F32), x);
}

TEST(ExprPool, ImportReplacesInputs) {
  ExprPool definition;
  const Expr x = definition.input(0, DType::F32);
  const Expr y = definition.input(1, DType::F32);
  definition.unary(ExprKind::Cos, x);  // not part of the root
  const Expr root = definition.store(
      definition.binary(ExprKind::Add, definition.unary(ExprKind::Exp, x),
                        definition.convert(definition.convert(y, DType::I32), DType::F32)),
      DType::F16);

  ExprPool pool;
  const Expr input = pool.input(7, DType::F32);
  const std::vector<Expr> replacements{pool.unary(ExprKind::Neg, input),
                                       pool.constant(2.5, DType::F32)};
  const Expr imported = pool.import(definition, root, replacements);
  EXPECT_EQ(to_string(pool, imported), "store_f16(add(exp(neg(in7)), 2.0))")
      << "constants are folded on the way";
  EXPECT_EQ(pool.import(definition, root, replacements), imported);
  EXPECT_EQ(pool.import(definition, x, replacements), replacements[0]);
}

TEST(ExprPool, TextNamesWhatIsReadTwice) {
  ExprPool pool;
  Expr x = pool.input(0, DType::F32);
  const Expr e = pool.unary(ExprKind::Exp, x);
  EXPECT_EQ(
      to_string(pool, pool.binary(ExprKind::Div, e,
                                  pool.binary(ExprKind::Add, e, pool.constant(1, DType::F32)))),
      "t0 = exp(in0); div(t0, add(t0, 1.0))");
  EXPECT_EQ(to_string(pool, pool.select(pool.input(1, DType::Bool), pool.size_of(Dim::symbol("s")),
                                        pool.loop(2))),
            "select(in1, size(s), loop2)");
  // Without names this text would have 2^100 parts.
  for (int i = 0; i < 100; ++i) x = pool.binary(ExprKind::Add, x, x);
  EXPECT_LT(to_string(pool, x).size(), 5000U);
  EXPECT_EQ(evaluate(pool, x, std::vector<ScalarValue>{{1, 0}}).real, 0x1p100);
}

TEST(ExprPool, DeepExpressionsAreNoTrouble) {
  ExprPool pool;
  Expr x = pool.input(0, DType::F64);
  for (int i = 0; i < 100'000; ++i) x = pool.binary(ExprKind::Add, x, pool.constant(i, DType::F64));
  EXPECT_EQ(evaluate(pool, x, std::vector<ScalarValue>{{1, 0}}).real, 1 + 99'999.0 * 50'000);
  ExprPool other;
  const Expr copy = other.import(pool, x, std::vector{other.input(0, DType::F64)});
  EXPECT_EQ(evaluate(other, copy, std::vector<ScalarValue>{{1, 0}}).real, 1 + 99'999.0 * 50'000);
}

TEST(ExprPoolDeathTest, MisuseIsOurOwnMistake) {
  ExprPool pool;
  const Expr x = pool.input(0, DType::F32);
  const Expr n = pool.input(1, DType::I64);
  EXPECT_DEATH(pool.binary(ExprKind::Add, x, n), "share one type");
  EXPECT_DEATH(pool.unary(ExprKind::Exp, n), "admits");
  EXPECT_DEATH(pool.unary(ExprKind::Add, x), "arity");
  EXPECT_DEATH(pool.input(0, DType::F16), "compute_type");
  EXPECT_DEATH(pool.store(n, DType::F16), "widens");
}

}  // namespace
}  // namespace opweld
