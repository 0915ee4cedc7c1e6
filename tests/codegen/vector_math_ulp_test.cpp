// Errors of the f32 functions against the C library's f64, over a sample of all bit patterns.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>
#include <sstream>

#include "codegen/cpu/vector_math.h"
#include "vector_math_harness.h"

namespace opweld::cpu {
namespace {

using testing::floats_by_bits;
using testing::ulp_error;
using testing::VectorFunction;

constexpr unsigned kLanes[] = {1, 4, 8, 16};

double exact_sigmoid(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

struct Function {
  const char* name;
  llvm::Value* (*emit)(llvm::IRBuilderBase&, llvm::Value*);
  double (*exact)(double);
  double bound;  // as docs/numerics.md states it
};

void PrintTo(const Function& function, std::ostream* out) {
  *out << function.name;
}

const Function kFunctions[] = {
    {"exp", emit_exp, std::exp, 1.05},
    {"log", emit_log, std::log, 1.0},
    {"tanh", emit_tanh, std::tanh, 2.5},
    {"erf", emit_erf, std::erf, 1.5},
    {"sigmoid", emit_sigmoid, exact_sigmoid, 2.5},
    {"sin", emit_sin, std::sin, 1.6},
    {"cos", emit_cos, std::cos, 1.6},
};

constexpr double kPowBound = 0.51;

class UnaryMath : public ::testing::TestWithParam<Function> {
 protected:
  static VectorFunction<float, float> compile(const JitTarget& target, unsigned lanes) {
    return {target, lanes, [](llvm::IRBuilderBase& builder, llvm::Value* x, llvm::Value*) {
              return GetParam().emit(builder, x);
            }};
  }

  static void expect_within_bound(const std::vector<float>& x, const std::vector<float>& y) {
    double worst = 0;
    float worst_at = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double error = ulp_error(y[i], GetParam().exact(static_cast<double>(x[i])));
      if (error > worst) {
        worst = error;
        worst_at = x[i];
      }
    }
    EXPECT_LE(worst, GetParam().bound) << "at " << worst_at;
  }
};

// Bits, so that NaN equals itself and -0 differs from 0.
std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> result(values.size());
  std::ranges::transform(values, result.begin(), [](float value) {
    return std::isnan(value) ? 0x7fc00000U : std::bit_cast<std::uint32_t>(value);
  });
  return result;
}

TEST_P(UnaryMath, KeepsItsBoundOverAllFloats) {
  const std::vector<float> x = floats_by_bits(6007);
  const std::vector<float> y = compile(JitTarget::host(), 8)(x);
  expect_within_bound(x, y);
}

TEST_P(UnaryMath, KeepsItsBoundWhereNetworksWork) {
  std::vector<float> x;
  for (int i = -400000; i <= 400000; ++i) x.push_back(static_cast<float>(i) * 0x1p-14F);
  expect_within_bound(x, compile(JitTarget::host(), 8)(x));
}

// Where exp and sigmoid run out of range, by way of denormal numbers.
TEST_P(UnaryMath, KeepsItsBoundAtTheEndsOfTheRange) {
  std::vector<float> x;
  for (float value = 86; value < 105; value += 0x1p-14F) {
    x.push_back(value);
    x.push_back(-value);
  }
  for (float value = 88.72F; value < 88.73F; value = std::nextafter(value, 100.0F)) {
    x.push_back(value);
  }
  expect_within_bound(x, compile(JitTarget::host(), 8)(x));
}

TEST_P(UnaryMath, HasTheSameBitsAtAnyWidthAndOnAnyTarget) {
  const std::vector<float> x = floats_by_bits(50021);
  const auto expected = bits(compile(JitTarget::host(), 8)(x));
  for (const unsigned lanes : kLanes) {
    EXPECT_EQ(bits(compile(JitTarget::host(), lanes)(x)), expected) << lanes << " lanes";
    EXPECT_EQ(bits(compile(JitTarget::host_avx2(), lanes)(x)), expected) << lanes << " lanes, AVX2";
  }
  // Fused multiply-adds by the C library, conversions in software.
  EXPECT_EQ(bits(compile({"x86-64", "", 128}, 4)(x)), expected) << "without FMA";
}

// The bounds that users read are the ones that are tested.
TEST(VectorMathBounds, AreThoseOfTheDocument) {
  std::ifstream file(OPWELD_SOURCE_DIR "/docs/numerics.md");
  std::ostringstream text;
  text << file.rdbuf();
  const auto expect_row = [&](const std::string& name, double bound) {
    const std::string begin = "\n| `" + name + "` | ";
    const std::size_t at = text.str().find(begin);
    ASSERT_NE(at, std::string::npos) << name;
    EXPECT_EQ(std::stod(text.str().substr(at + begin.size())), bound) << name;
  };
  for (const Function& function : kFunctions) expect_row(function.name, function.bound);
  expect_row("pow", kPowBound);
}

INSTANTIATE_TEST_SUITE_P(, UnaryMath, ::testing::ValuesIn(kFunctions),
                         [](const auto& test) { return std::string(test.param.name); });

VectorFunction<float, float> compile_pow(const JitTarget& target, unsigned lanes) {
  return {target, lanes, [](llvm::IRBuilderBase& builder, llvm::Value* x, llvm::Value* y) {
            return emit_pow(builder, x, y);
          }};
}

struct Pairs {
  std::vector<float> x;
  std::vector<float> y;
};

// Half of the pairs are any bits; for the others the result is no mere overflow.
Pairs pow_arguments(int count) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> exponent(-149, 127);
  Pairs pairs;
  for (int i = 0; i < count; ++i) {
    pairs.x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
    pairs.y.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
    const float base = std::bit_cast<float>(static_cast<std::uint32_t>(random() >> 1));
    if (!std::isfinite(base) || base == 0 || base == 1) continue;
    pairs.x.push_back(base);
    pairs.y.push_back(exponent(random) / std::log2(base));
    pairs.x.push_back(-base);
    pairs.y.push_back(std::round(pairs.y.back()));
  }
  return pairs;
}

TEST(PowMath, KeepsItsBound) {
  const Pairs pairs = pow_arguments(200000);
  const std::vector<float> result = compile_pow(JitTarget::host(), 8)(pairs.x, pairs.y);
  double worst = 0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double exact = std::pow(static_cast<double>(pairs.x[i]), static_cast<double>(pairs.y[i]));
    const double error = ulp_error(result[i], exact);
    EXPECT_LE(error, kPowBound) << pairs.x[i] << " ^ " << pairs.y[i];
    worst = std::max(worst, error);
  }
  EXPECT_GT(worst, 0.4) << "the sample is too easy";
}

TEST(PowMath, HasTheSameBitsAtAnyWidthAndOnAnyTarget) {
  const Pairs pairs = pow_arguments(5000);
  const auto expected = bits(compile_pow(JitTarget::host(), 8)(pairs.x, pairs.y));
  for (const unsigned lanes : kLanes) {
    EXPECT_EQ(bits(compile_pow(JitTarget::host(), lanes)(pairs.x, pairs.y)), expected) << lanes;
    EXPECT_EQ(bits(compile_pow(JitTarget::host_avx2(), lanes)(pairs.x, pairs.y)), expected);
  }
  EXPECT_EQ(bits(compile_pow({"x86-64", "", 128}, 4)(pairs.x, pairs.y)), expected);
}

// Double the digits: the C library's f64 against its long double.
TEST(DoubleMath, KeepsItsBound) {
  struct Double {
    const char* name;
    llvm::Value* (*emit)(llvm::IRBuilderBase&, llvm::Value*);
    long double (*exact)(long double);
    double bound;
  };
  const Double functions[] = {
      {"exp", emit_exp, std::exp, 1},
      {"log", emit_log, std::log, 1},
      {"tanh", emit_tanh, std::tanh, 2},
      {"erf", emit_erf, std::erf, 2},
      {"sigmoid", emit_sigmoid, [](long double x) { return 1 / (1 + std::exp(-x)); }, 2.5},
      {"sin", emit_sin, std::sin, 1},
      {"cos", emit_cos, std::cos, 1},
  };
  std::vector<double> x;
  for (int i = -20000; i <= 20000; ++i) x.push_back(i * 0x1.123p-8);
  for (const Double& function : functions) {
    for (const unsigned lanes : {1U, 4U, 8U}) {
      const VectorFunction<double, double> compiled(
          JitTarget::host(), lanes,
          [&](llvm::IRBuilderBase& builder, llvm::Value* a, llvm::Value*) {
            return function.emit(builder, a);
          });
      const std::vector<double> y = compiled(x);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const long double exact = function.exact(static_cast<long double>(x[i]));
        if (std::isnan(exact) || std::isinf(exact)) {
          EXPECT_EQ(std::isnan(exact), std::isnan(y[i])) << function.name << " of " << x[i];
          continue;
        }
        const long double ulp = std::ldexp(1.0L, std::max(std::ilogb(exact), -1022) - 52);
        ASSERT_LE(std::fabs(y[i] - exact), function.bound * ulp) << function.name << " of " << x[i];
      }
    }
  }
}

}  // namespace
}  // namespace opweld::cpu
