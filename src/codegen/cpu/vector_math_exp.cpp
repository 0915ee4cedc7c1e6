// exp and what is made of it: sigmoid, tanh, erf.
#include <numbers>

#include "codegen/cpu/vector_math.h"
#include "codegen/cpu/vector_math_coefficients.h"
#include "codegen/cpu/vector_math_lanes.h"

namespace opweld::cpu {
namespace {

// ln(2) in two parts: n * kLn2High is taken off x without rounding, n * kLn2Low makes up for the
// rest (W. Cody and W. Waite, Software Manual for the Elementary Functions, 1980).
constexpr double kLn2High = 0x1.62e43p-1;
constexpr double kLn2Low = -0x1.05c610p-29;

// erf from its two polynomials meets here; beyond the second bound it rounds to 1.
constexpr double kErfSplit = 0.921875;
constexpr double kErfOne = 3.9375;

llvm::Value* exp_f32(LaneMath& math, llvm::Value* x) {
  // Outside of these bounds the result is infinite or rounds to zero, as it does at them.
  const Exponential e = emit_reduced_exp(math, math.at_least(math.at_most(x, 89), -104));
  return math.scaled(math.add(e.tail, math.real(1)), e.n);
}

// With t = e^(2|x|) - 1: tanh |x| = t / (t + 2), without cancellation for small x.
llvm::Value* tanh_f32(LaneMath& math, llvm::Value* x) {
  llvm::Value* const magnitude = math.at_most(math.abs(x), 10);  // tanh(10) rounds to 1
  const Exponential e = emit_reduced_exp(math, math.add(magnitude, magnitude));
  llvm::Value* const scale = math.power_of_two(e.n);
  llvm::Value* const t = math.fma(e.tail, scale, math.sub(scale, math.real(1)));
  return math.copy_sign(math.div(t, math.add(t, math.real(2))), x);
}

llvm::Value* erf_f32(LaneMath& math, llvm::Value* x) {
  llvm::Value* const magnitude = math.abs(x);
  llvm::Value* const ratio = math.polynomial(math.mul(x, x), kErfSmall);
  llvm::Value* const small = math.fma(x, ratio, x);

  llvm::Value* const exponent = math.polynomial(math.at_most(magnitude, kErfOne), kErfLarge);
  const Exponential e = emit_reduced_exp(math, math.neg(exponent));
  llvm::Value* const scale = math.power_of_two(e.n);
  llvm::Value* const complement = math.fma(e.tail, scale, scale);
  llvm::Value* const large = math.copy_sign(math.sub(math.real(1), complement), x);

  llvm::IRBuilderBase& builder = math.builder();
  return builder.CreateSelect(builder.CreateFCmpOLT(magnitude, math.real(kErfSplit)), small, large);
}

}  // namespace

Exponential emit_reduced_exp(LaneMath& math, llvm::Value* x) {
  const LaneMath::Nearest n = math.nearest(x, math.real(std::numbers::log2e));
  llvm::Value* const rough = math.fma(n.real, math.real(-kLn2High), x);
  llvm::Value* const r = math.fma(n.real, math.real(-kLn2Low), rough);
  llvm::Value* const rest = math.polynomial(r, kExp);
  return {math.fma(math.mul(r, r), rest, r), n};
}

llvm::Value* emit_exp(llvm::IRBuilderBase& builder, llvm::Value* x) {
  LaneMath math(builder, x->getType());
  return math.is_double() ? call_library(builder, "exp", {&x, 1}) : exp_f32(math, x);
}

// From e^-|x|, which cannot overflow: 1 / (1 + e^-x) for x >= 0, e^x / (1 + e^x) below.
llvm::Value* emit_sigmoid(llvm::IRBuilderBase& builder, llvm::Value* x) {
  LaneMath math(builder, x->getType());
  llvm::Value* const power = emit_exp(builder, math.neg(math.abs(x)));
  llvm::Value* const is_negative = builder.CreateFCmpOLT(x, math.real(0));
  llvm::Value* const numerator = builder.CreateSelect(is_negative, power, math.real(1));
  return math.div(numerator, math.add(math.real(1), power));
}

llvm::Value* emit_tanh(llvm::IRBuilderBase& builder, llvm::Value* x) {
  LaneMath math(builder, x->getType());
  return math.is_double() ? call_library(builder, "tanh", {&x, 1}) : tanh_f32(math, x);
}

llvm::Value* emit_erf(llvm::IRBuilderBase& builder, llvm::Value* x) {
  LaneMath math(builder, x->getType());
  return math.is_double() ? call_library(builder, "erf", {&x, 1}) : erf_f32(math, x);
}

}  // namespace opweld::cpu
