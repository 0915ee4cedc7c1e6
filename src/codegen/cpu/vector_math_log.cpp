// log and pow.
#include <cstdint>
#include <numbers>

#include "codegen/cpu/vector_math.h"
#include "codegen/cpu/vector_math_coefficients.h"
#include "codegen/cpu/vector_math_lanes.h"

namespace opweld::cpu {
namespace {

constexpr double kLn2High = 0x1.62e43p-1;
constexpr double kLn2Low = -0x1.05c610p-29;

// Bits of sqrt(1/2): mantissas are taken from there to sqrt(2), so that log(1) is near nothing.
constexpr std::int64_t kSqrtHalfBitsF32 = 0x3f3504f3;
constexpr std::int64_t kSqrtHalfBitsF64 = 0x3fe6a09e667f3bcd;

// log(2^n (1 + f)) = n ln(2) + f - f^2/2 + f^3 p(f)
llvm::Value* log_f32(LaneMath& math, llvm::Value* x) {
  llvm::IRBuilderBase& builder = math.builder();
  llvm::Value* const is_denormal = builder.CreateFCmpOLT(x, math.real(0x1p-126));
  llvm::Value* const normal = builder.CreateSelect(is_denormal, math.mul(x, math.real(0x1p23)), x);

  llvm::Value* const offset = math.integer(kSqrtHalfBitsF32);
  llvm::Value* const shifted = builder.CreateSub(math.bits(normal), offset);
  llvm::Value* const exponent =
      builder.CreateSIToFP(builder.CreateAShr(shifted, math.integer(23)), math.type());
  llvm::Value* const n =
      math.sub(exponent, builder.CreateSelect(is_denormal, math.real(23), math.real(0)));
  llvm::Value* const mantissa =
      builder.CreateAdd(builder.CreateAnd(shifted, math.integer(0x7fffff)), offset);
  llvm::Value* const f = math.sub(math.from_bits(mantissa), math.real(1));

  llvm::Value* const square = math.mul(f, f);
  llvm::Value* const cube = math.mul(square, f);
  llvm::Value* tail = math.mul(cube, math.polynomial(f, kLog));
  tail = math.fma(n, math.real(kLn2Low), tail);
  tail = math.fma(square, math.real(-0.5), tail);
  llvm::Value* result = math.fma(n, math.real(kLn2High), math.add(f, tail));

  result = builder.CreateSelect(builder.CreateFCmpOEQ(x, math.infinity()), x, result);
  result = builder.CreateSelect(builder.CreateFCmpOEQ(x, math.real(0)), math.neg(math.infinity()),
                                result);
  return builder.CreateSelect(builder.CreateFCmpULT(x, math.real(0)), math.nan(), result);
}

// log2(x) for x a positive normal f64: log2(2^n m) = n + s p(s^2) with s = (m - 1) / (m + 1).
llvm::Value* log2_f64(LaneMath& math, llvm::Value* x) {
  llvm::IRBuilderBase& builder = math.builder();
  llvm::Value* const offset = math.integer(kSqrtHalfBitsF64);
  llvm::Value* const shifted = builder.CreateSub(math.bits(x), offset);
  llvm::Value* const mantissa =
      builder.CreateAdd(builder.CreateAnd(shifted, math.integer((1LL << 52) - 1)), offset);
  llvm::Value* const m = math.from_bits(mantissa);
  llvm::Value* const s = math.div(math.sub(m, math.real(1)), math.add(m, math.real(1)));

  // n + 1024 as the last bits of 2^52: AVX2 can neither shift 64-bit lanes arithmetically nor
  // convert them.
  llvm::Value* const biased =
      builder.CreateLShr(builder.CreateAdd(shifted, math.integer(1024LL << 52)), math.integer(52));
  llvm::Value* const n =
      math.sub(math.from_bits(builder.CreateOr(biased, math.bits(math.real(0x1p52)))),
               math.real(0x1p52 + 1024));
  return math.fma(s, math.polynomial(math.mul(s, s), kLog2F64), n);
}

// 2^x for |x| <= 160.
llvm::Value* exp2_f64(LaneMath& math, llvm::Value* x) {
  const LaneMath::Nearest n = math.nearest(x, math.real(1));
  llvm::Value* const r = math.sub(x, n.real);
  llvm::Value* const mantissa = math.fma(r, math.polynomial(r, kExp2F64), math.real(1));
  return math.mul(mantissa, math.power_of_two(n.integer));
}

// |x|^y for f32, computed in f64, which has room for the digits that y * log2(x) loses.
llvm::Value* power_of_magnitude(LaneMath& math, llvm::Value* magnitude, llvm::Value* y) {
  llvm::IRBuilderBase& builder = math.builder();
  llvm::Type* const wide_type = math.type()->getWithNewType(builder.getDoubleTy());
  LaneMath wide(builder, wide_type);
  llvm::Value* logarithm = log2_f64(wide, builder.CreateFPExt(magnitude, wide_type));
  const auto is = [&](llvm::Value* value) { return builder.CreateFCmpOEQ(magnitude, value); };
  logarithm = builder.CreateSelect(is(math.real(0)), wide.neg(wide.infinity()), logarithm);
  logarithm = builder.CreateSelect(is(math.infinity()), wide.infinity(), logarithm);
  llvm::Value* const exponent = wide.mul(logarithm, builder.CreateFPExt(y, wide_type));
  // At the bounds the result overflows f32 or is below half of its smallest number.
  llvm::Value* const power = exp2_f64(wide, wide.at_least(wide.at_most(exponent, 160), -160));
  return builder.CreateFPTrunc(power, math.type());
}

llvm::Value* pow_f32(LaneMath& math, llvm::Value* x, llvm::Value* y) {
  llvm::IRBuilderBase& builder = math.builder();
  const auto select = [&](llvm::Value* condition, llvm::Value* then, llvm::Value* otherwise) {
    return builder.CreateSelect(condition, then, otherwise);
  };
  llvm::Value* const magnitude = math.abs(x);
  llvm::Value* result = power_of_magnitude(math, magnitude, y);

  // Infinities count as even integers, as all large numbers do.
  llvm::Value* const half = math.mul(y, math.real(0.5));
  llvm::Value* const is_integer = builder.CreateFCmpOEQ(math.floor(y), y);
  llvm::Value* const is_odd =
      builder.CreateAnd(is_integer, builder.CreateFCmpONE(math.floor(half), half));
  llvm::Value* const sign_bit = builder.CreateICmpSLT(math.bits(x), math.integer(0));
  result = select(builder.CreateAnd(sign_bit, is_odd), math.neg(result), result);

  llvm::Value* const finite_negative = builder.CreateAnd(
      builder.CreateFCmpOLT(x, math.real(0)), builder.CreateFCmpONE(magnitude, math.infinity()));
  result =
      select(builder.CreateAnd(finite_negative, builder.CreateNot(is_integer)), math.nan(), result);
  result = select(builder.CreateFCmpUNO(x, y), math.nan(), result);
  // 1^y and x^0 are 1, also of NaN; so is (-1)^(+-inf).
  llvm::Value* const infinite_power = builder.CreateFCmpOEQ(math.abs(y), math.infinity());
  llvm::Value* const one =
      builder.CreateOr(builder.CreateFCmpOEQ(x, math.real(1)),
                       builder.CreateAnd(builder.CreateFCmpOEQ(x, math.real(-1)), infinite_power));
  return select(builder.CreateOr(one, builder.CreateFCmpOEQ(y, math.real(0))), math.real(1),
                result);
}

}  // namespace

llvm::Value* emit_log(llvm::IRBuilderBase& builder, llvm::Value* x) {
  LaneMath math(builder, x->getType());
  return math.is_double() ? call_library(builder, "log", {&x, 1}) : log_f32(math, x);
}

llvm::Value* emit_pow(llvm::IRBuilderBase& builder, llvm::Value* x, llvm::Value* y) {
  LaneMath math(builder, x->getType());
  if (!math.is_double()) return pow_f32(math, x, y);
  llvm::Value* const arguments[] = {x, y};
  return call_library(builder, "pow", arguments);
}

}  // namespace opweld::cpu
