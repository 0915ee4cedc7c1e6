// NaN, infinities, zeros and the ends of the range, as C99 Annex F has them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "codegen/cpu/vector_math.h"
#include "vector_math_harness.h"

namespace opweld::cpu {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::VectorFunction;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();
constexpr float kMax = std::numeric_limits<float>::max();

using Unary = llvm::Value* (*)(llvm::IRBuilderBase&, llvm::Value*);
using Binary = llvm::Value* (*)(llvm::IRBuilderBase&, llvm::Value*, llvm::Value*);

struct Case {
  float x;
  float result;
};

void expect_same(float actual, float expected, const std::string& what) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(actual)) << what << " is " << actual;
    return;
  }
  EXPECT_EQ(actual, expected) << what;
  EXPECT_EQ(std::signbit(actual), std::signbit(expected)) << what << ": sign of " << actual;
}

// As a scalar and in every lane of vectors, in f32 and in f64.
void expect_cases(Unary emit, const std::vector<Case>& cases) {
  const testing::Emit by_lane = [&](llvm::IRBuilderBase& builder, llvm::Value* x, llvm::Value*) {
    return emit(builder, x);
  };
  for (const unsigned lanes : {1U, 8U}) {
    const VectorFunction<float, float> f32(JitTarget::host(), lanes, by_lane);
    const VectorFunction<double, double> f64(JitTarget::host(), lanes, by_lane);
    for (const Case& c : cases) {
      const std::string what = fmt::format("of {} at {} lanes", c.x, lanes);
      for (const float y : f32(std::vector<float>(lanes, c.x))) {
        expect_same(y, c.result, "f32 " + what);
      }
      for (const double y : f64(std::vector<double>(lanes, c.x))) {
        expect_same(static_cast<float>(y), c.result, "f64 " + what);
      }
    }
  }
}

TEST(SpecialValues, Exp) {
  expect_cases(emit_exp, {{0.0F, 1.0F},
                          {-0.0F, 1.0F},
                          {kInf, kInf},
                          {-kInf, 0.0F},
                          {kNan, kNan},
                          {kTiny, 1.0F},
                          {-200.0F, 0.0F},
                          {kMax, kInf},
                          {-kMax, 0.0F},
                          {88.722839F, kInf},  // ln(2^128) and a little
                          {-103.27892F, kTiny}});
}

TEST(SpecialValues, Log) {
  expect_cases(emit_log, {{0.0F, -kInf},
                          {-0.0F, -kInf},
                          {1.0F, 0.0F},
                          {kInf, kInf},
                          {-kInf, kNan},
                          {-kTiny, kNan},
                          {-1.0F, kNan},
                          {kNan, kNan},
                          {kTiny, -103.27893F},
                          {kMax, 88.72284F}});
}

TEST(SpecialValues, Tanh) {
  expect_cases(emit_tanh, {{0.0F, 0.0F},
                           {-0.0F, -0.0F},
                           {kInf, 1.0F},
                           {-kInf, -1.0F},
                           {kNan, kNan},
                           {kTiny, kTiny},
                           {-kTiny, -kTiny},
                           {kMax, 1.0F},
                           {100.0F, 1.0F}});
}

TEST(SpecialValues, Erf) {
  expect_cases(emit_erf, {{0.0F, 0.0F},
                          {-0.0F, -0.0F},
                          {kInf, 1.0F},
                          {-kInf, -1.0F},
                          {kNan, kNan},
                          {kTiny, kTiny},
                          {-kMax, -1.0F},
                          {4.0F, 1.0F}});
}

TEST(SpecialValues, Sigmoid) {
  expect_cases(emit_sigmoid, {{0.0F, 0.5F},
                              {-0.0F, 0.5F},
                              {kInf, 1.0F},
                              {-kInf, 0.0F},
                              {kNan, kNan},
                              {kMax, 1.0F},
                              {-kMax, 0.0F},
                              {-103.27893F, kTiny}});
}

TEST(SpecialValues, SinAndCos) {
  expect_cases(emit_sin, {{0.0F, 0.0F},
                          {-0.0F, -0.0F},
                          {kTiny, kTiny},
                          {-kTiny, -kTiny},
                          {kInf, kNan},
                          {-kInf, kNan},
                          {kNan, kNan},
                          // Far beyond what three parts of pi/2 can reduce.
                          {1e10F, static_cast<float>(std::sin(1e10))},
                          {kMax, static_cast<float>(std::sin(static_cast<double>(kMax)))}});
  expect_cases(emit_cos, {{0.0F, 1.0F},
                          {-0.0F, 1.0F},
                          {kTiny, 1.0F},
                          {kInf, kNan},
                          {-kInf, kNan},
                          {kNan, kNan},
                          {-1e10F, static_cast<float>(std::cos(1e10))},
                          {kMax, static_cast<float>(std::cos(static_cast<double>(kMax)))}});
}

TEST(SpecialValues, SinOfALargeLaneLeavesItsNeighboursAlone) {
  const VectorFunction<float, float> sin(
      JitTarget::host(), 8, [](llvm::IRBuilderBase& builder, llvm::Value* x, llvm::Value*) {
        return emit_sin(builder, x);
      });
  const std::vector<float> small = {0.1F, -2.0F, 3.0F, 40.0F, -500.0F, 6000.0F, kNan, 0.0F};
  std::vector<float> mixed = small;
  mixed[3] = 3e30F;
  const std::vector<float> alone = sin(small);
  const std::vector<float> beside = sin(mixed);
  for (std::size_t i = 0; i < small.size(); ++i) {
    if (i != 3) expect_same(beside[i], alone[i], fmt::format("lane {}", i));
  }
  expect_same(beside[3], static_cast<float>(std::sin(static_cast<double>(3e30F))), "lane 3");
}

TEST(SpecialValues, Pow) {
  struct PowCase {
    float x, y, result;
  };
  const std::vector<PowCase> cases = {
      {kNan, 0.0F, 1.0F},        {kNan, -0.0F, 1.0F},     {1.0F, kNan, 1.0F},
      {1.0F, -kInf, 1.0F},       {-1.0F, kInf, 1.0F},     {-1.0F, -kInf, 1.0F},
      {kNan, 1.0F, kNan},        {2.0F, kNan, kNan},      {-1.0F, kNan, kNan},
      {0.0F, 3.0F, 0.0F},        {-0.0F, 3.0F, -0.0F},    {-0.0F, 2.0F, 0.0F},
      {-0.0F, 2.5F, 0.0F},       {0.0F, -3.0F, kInf},     {-0.0F, -3.0F, -kInf},
      {-0.0F, -2.0F, kInf},      {0.0F, -kInf, kInf},     {-0.0F, -kInf, kInf},
      {0.0F, kInf, 0.0F},        {-0.0F, 0.5F, 0.0F},     {0.0F, 1e-30F, 0.0F},
      {0.0F, -1e-30F, kInf},     {0.0F, 0.0F, 1.0F},      {kInf, 0.0F, 1.0F},
      {0.5F, -kInf, kInf},       {2.0F, -kInf, 0.0F},     {-0.5F, kInf, 0.0F},
      {-2.0F, kInf, kInf},       {kInf, -2.0F, 0.0F},     {kInf, 2.0F, kInf},
      {kInf, 1e-30F, kInf},      {kInf, -kInf, 0.0F},     {-kInf, -3.0F, -0.0F},
      {-kInf, -2.0F, 0.0F},      {-kInf, -2.5F, 0.0F},    {-kInf, 3.0F, -kInf},
      {-kInf, 2.0F, kInf},       {-kInf, 2.5F, kInf},     {-8.0F, 1 / 3.0F, kNan},
      {-2.0F, 3.0F, -8.0F},      {-2.0F, 2.0F, 4.0F},     {-2.0F, -1.0F, -0.5F},
      {2.0F, 128.0F, kInf},      {-2.0F, 129.0F, -kInf},  {2.0F, -149.0F, kTiny},
      {2.0F, -151.0F, 0.0F},     {-2.0F, -151.0F, -0.0F}, {kTiny, 1.0F, kTiny},
      {kMax, 1.0F, kMax},        {3.0F, 2.0F, 9.0F},      {-1.0F, 16777217.0F, 1.0F},
      {-1.0F, 8388609.0F, -1.0F}};
  const testing::Emit emit = [](llvm::IRBuilderBase& builder, llvm::Value* x, llvm::Value* y) {
    return emit_pow(builder, x, y);
  };
  for (const unsigned lanes : {1U, 8U}) {
    const VectorFunction<float, float> f32(JitTarget::host(), lanes, emit);
    const VectorFunction<double, double> f64(JitTarget::host(), lanes, emit);
    for (const PowCase& c : cases) {
      const std::string what = fmt::format("{} ^ {} at {} lanes", c.x, c.y, lanes);
      expect_same(f32(c.x, c.y), c.result, "f32 " + what);
      const bool fits_f64 = std::fabs(c.y) < 100 || std::isinf(c.y) || std::fabs(c.x) == 1;
      if (fits_f64) {
        expect_same(static_cast<float>(f64(c.x, c.y)), c.result, "f64 " + what);
      }
    }
  }
}

// No run can show what AVX-512 computes on a machine without; but a processor's approximate
// instructions would stand in the code, and a contraction would change the number of operations.
TEST(SpecialValues, Avx512DoesTheSameArithmetic) {
  const auto assembly = [](const JitTarget& target, unsigned lanes, Unary emit) {
    const Jit jit = Jit::create(target, Foreign::Allow).value();
    llvm::LLVMContext context;
    auto module = testing::map_module(jit, context, "map", llvm::Type::getFloatTy(context),
                                      llvm::Type::getFloatTy(context), lanes,
                                      [&](llvm::IRBuilderBase& builder, llvm::Value* x,
                                          llvm::Value*) { return emit(builder, x); });
    EXPECT_TRUE(optimize(jit, *module));
    return emit_assembly(jit, *module).value();
  };
  const auto count = [](const std::string& text, const std::string& part) {
    int result = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
      ++result;
    }
    return result;
  };
  struct Function {
    Unary emit;
    int scalings = 0;  // pairs of products by powers of two, which AVX-512 scales by at once
  };
  for (const auto& [emit, scalings] : {Function{emit_exp, 1},
                                       {emit_log},
                                       {emit_tanh},
                                       {emit_erf},
                                       {emit_sigmoid, 1},
                                       {emit_sin},
                                       {emit_cos}}) {
    const std::string narrow = assembly(JitTarget::host_avx2(), 8, emit);
    const std::string wide = assembly({"x86-64-v4", "", 512}, 16, emit);
    EXPECT_THAT(wide, HasSubstr("zmm"));
    for (const char* approximate : {"vrcp", "vrsqrt", "vexp2"}) {
      EXPECT_THAT(wide, Not(HasSubstr(approximate)));
      EXPECT_THAT(narrow, Not(HasSubstr(approximate)));
    }
    // Multiply-adds come as vfmadd, vfmsub, vfnmadd or vfnmsub.
    EXPECT_EQ(count(wide, "\tvfm") + count(wide, "\tvfnm"),
              count(narrow, "\tvfm") + count(narrow, "\tvfnm"));
    EXPECT_EQ(count(wide, "\tvmulps") + 2 * scalings, count(narrow, "\tvmulps"));
    EXPECT_EQ(count(wide, "\tvdivps"), count(narrow, "\tvdivps"));
    EXPECT_EQ(count(wide, "\tvaddps") + count(wide, "\tvsubps"),
              count(narrow, "\tvaddps") + count(narrow, "\tvsubps"));
  }
}

// Numbers whose exponential is no normal number, or just is: where a second rounding would show.
TEST(SpecialValues, ExpRoundsOnceAtAnyWidth) {
  const testing::Emit emit = [](llvm::IRBuilderBase& builder, llvm::Value* x, llvm::Value*) {
    return emit_exp(builder, x);
  };
  std::vector<float> x;
  for (int i = 0; i < 1 << 16; ++i) x.push_back(-104.5F + static_cast<float>(i) * 0x1p-11F);
  for (int i = 0; i < 1 << 12; ++i) x.push_back(87.5F + static_cast<float>(i) * 0x1p-11F);
  for (const float special : {kInf, -kInf, kNan, 0.0F, -0.0F, kTiny, kMax, -kMax}) {
    x.insert(x.end(), 2, special);
  }
  const std::vector<float> narrow = VectorFunction<float, float>(JitTarget::host(), 8, emit)(x);
  const std::vector<float> wide = VectorFunction<float, float>(JitTarget::host(), 16, emit)(x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    expect_same(wide[i], narrow[i], fmt::format("exp({})", x[i]));
  }
}

template <typename T>
void expect_mods() {
  struct ModCase {
    T x, y, fmod, mod;
  };
  constexpr T kInfinite = std::numeric_limits<T>::infinity();
  constexpr T kNoNumber = std::numeric_limits<T>::quiet_NaN();
  // The right column is what numpy.mod gives.
  const std::vector<ModCase> cases = {
      {7, 3, 1, 1},
      {-7, 3, -1, 2},
      {7, -3, 1, -2},
      {-7, -3, -1, -1},
      {6, 3, T(0), T(0)},
      {-6, 3, T(-0.0), T(0.0)},
      {6, -3, T(0.0), T(-0.0)},
      {T(-0.0), 3, T(-0.0), T(0.0)},
      {5.5, 2, 1.5, 1.5},
      {-5.5, 2, -1.5, 0.5},
      {1, 0, kNoNumber, kNoNumber},
      {0, 0, kNoNumber, kNoNumber},
      {kInfinite, 2, kNoNumber, kNoNumber},
      {kNoNumber, 2, kNoNumber, kNoNumber},
      {2, kNoNumber, kNoNumber, kNoNumber},
      {2, kInfinite, 2, 2},
      {-2, kInfinite, -2, kInfinite},
      {2, -kInfinite, 2, -kInfinite},
      {16777215, T(0.5), T(0), T(0)},
      {T(1e30), 3, std::fmod(T(1e30), T(3)), std::fmod(T(1e30), T(3))},
  };
  const auto compile = [](Binary emit, unsigned lanes) {
    return VectorFunction<T, T>(JitTarget::host(), lanes,
                                [=](llvm::IRBuilderBase& builder, llvm::Value* x, llvm::Value* y) {
                                  return emit(builder, x, y);
                                });
  };
  for (const unsigned lanes : {1U, 8U}) {
    const auto fmod = compile(emit_fmod, lanes);
    const auto mod = compile(emit_mod, lanes);
    for (const ModCase& c : cases) {
      const std::string what = fmt::format("{} mod {} at {} lanes", c.x, c.y, lanes);
      expect_same(static_cast<float>(fmod(c.x, c.y)), static_cast<float>(c.fmod), "f" + what);
      expect_same(static_cast<float>(mod(c.x, c.y)), static_cast<float>(c.mod), what);
    }
  }
}

TEST(SpecialValues, ModF32) {
  expect_mods<float>();
}
TEST(SpecialValues, ModF64) {
  expect_mods<double>();
}

}  // namespace
}  // namespace opweld::cpu
