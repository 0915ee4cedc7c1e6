// Shorthand in which the vector math functions are written. Private to vector_math_*.cpp.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <span>
#include <string>

namespace opweld::cpu {

// Emits arithmetic on values of one floating-point type (f32 or f64, scalar or vector) and on the
// integers that have its bits. While it lives, the builder's fast-math flags are off.
class LaneMath {
 public:
  LaneMath(llvm::IRBuilderBase& builder, llvm::Type* type);

  llvm::IRBuilderBase& builder() { return builder_; }

  [[nodiscard]] llvm::Constant* real(double value) const {
    return llvm::ConstantFP::get(type_, value);
  }
  [[nodiscard]] llvm::Constant* integer(std::int64_t value) const {
    return llvm::ConstantInt::get(bits_type_, static_cast<std::uint64_t>(value), true);
  }
  [[nodiscard]] llvm::Constant* infinity() const { return llvm::ConstantFP::getInfinity(type_); }
  [[nodiscard]] llvm::Constant* nan() const { return llvm::ConstantFP::getQNaN(type_); }

  llvm::Value* add(llvm::Value* a, llvm::Value* b) { return builder_.CreateFAdd(a, b); }
  llvm::Value* sub(llvm::Value* a, llvm::Value* b) { return builder_.CreateFSub(a, b); }
  llvm::Value* mul(llvm::Value* a, llvm::Value* b) { return builder_.CreateFMul(a, b); }
  llvm::Value* div(llvm::Value* a, llvm::Value* b) { return builder_.CreateFDiv(a, b); }
  llvm::Value* neg(llvm::Value* a) { return builder_.CreateFNeg(a); }
  llvm::Value* abs(llvm::Value* a);
  llvm::Value* floor(llvm::Value* a);
  llvm::Value* copy_sign(llvm::Value* magnitude, llvm::Value* sign);
  llvm::Value* fma(llvm::Value* a, llvm::Value* b, llvm::Value* c);  // a * b + c, rounded once
  // The least (greatest) of `a` and `bound`; a NaN stays.
  llvm::Value* at_most(llvm::Value* a, double bound);
  llvm::Value* at_least(llvm::Value* a, double bound);
  // The polynomial whose coefficients are given highest power first, by Horner's rule.
  llvm::Value* polynomial(llvm::Value* x, std::span<const float> coefficients);
  llvm::Value* polynomial(llvm::Value* x, std::span<const double> coefficients);

  llvm::Value* bits(llvm::Value* real) { return builder_.CreateBitCast(real, bits_type_); }
  llvm::Value* from_bits(llvm::Value* bits) { return builder_.CreateBitCast(bits, type_); }

  // x to the nearest integer, ties to even, |x| < 2^(mantissa bits - 2): as a real, and as a number
  // modulo 2^(mantissa bits - 2) in an integer. Anything for a NaN.
  struct Nearest {
    llvm::Value* real;
    llvm::Value* integer;
  };
  Nearest nearest(llvm::Value* x, llvm::Value* factor);  // of x * factor
  // 2^n for an integer n in the range of normal numbers.
  llvm::Value* power_of_two(llvm::Value* n);
  llvm::Value* power_of_two(const Nearest& n);
  // x * 2^n for 1 <= x < 4, rounded once; n may reach half as far again as normal numbers do.
  llvm::Value* scaled(llvm::Value* x, const Nearest& n);

  [[nodiscard]] bool is_double() const { return type_->getScalarType()->isDoubleTy(); }
  [[nodiscard]] llvm::Type* type() const { return type_; }
  [[nodiscard]] int mantissa_bits() const { return is_double() ? 52 : 23; }
  [[nodiscard]] int exponent_bias() const { return is_double() ? 1023 : 127; }

 private:
  // x * 2^n in one instruction, where the target has one for this type; else null.
  llvm::Value* scaled_by_target(llvm::Value* x, const Nearest& n);

  llvm::IRBuilderBase& builder_;
  llvm::IRBuilderBase::FastMathFlagGuard flags_;
  llvm::Type* type_;
  llvm::Type* bits_type_;
};

// e^x for f32, -104 <= x <= 89 or NaN, as (1 + tail) * 2^n with |tail| < 0.42; e^x - 1 near zero is
// the tail, without cancellation.
struct Exponential {
  llvm::Value* tail;
  LaneMath::Nearest n;
};
Exponential emit_reduced_exp(LaneMath& math, llvm::Value* x);

// `name` of the C library on each lane: name + "f" for f32.
llvm::Value* call_library(llvm::IRBuilderBase& builder, const std::string& name,
                          std::span<llvm::Value* const> arguments);

}  // namespace opweld::cpu
