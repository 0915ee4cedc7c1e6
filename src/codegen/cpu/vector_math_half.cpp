// Conversions between f32 and the 16-bit types.
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include <cstdint>

#include "codegen/cpu/jit_llvm.h"
#include "codegen/cpu/vector_math.h"
#include "codegen/cpu/vector_math_lanes.h"

namespace opweld::cpu {
namespace {

bool uses_f16c(llvm::IRBuilderBase& builder) {
  return has_f16c(*builder.GetInsertBlock()->getModule());
}

// f32 has 13 more bits of mantissa, and an exponent bias that is greater by 112.
constexpr std::int64_t kF32Infinity = 0x7f800000;
constexpr std::int64_t kBiasDifference = 112LL << 23;
constexpr std::int64_t kSmallestNormal = 113LL << 23;  // 2^-14
constexpr std::int64_t kTooLarge = 143LL << 23;        // 2^16

// The bits of f16, without its sign, of a magnitude given by the bits of f32.
llvm::Value* narrow_magnitude(LaneMath& math, llvm::Value* bits) {
  llvm::IRBuilderBase& builder = math.builder();
  const auto number = [&](std::int64_t value) { return math.integer(value); };

  // Half of the last place that is kept, less one, and that place itself, for ties; a carry runs
  // into the exponent, where it belongs.
  llvm::Value* const shifted = builder.CreateLShr(bits, number(13));
  llvm::Value* const half =
      builder.CreateAdd(builder.CreateAnd(shifted, number(1)), number(0xfff - kBiasDifference));
  llvm::Value* const normal = builder.CreateLShr(builder.CreateAdd(bits, half), number(13));
  // The last place of 0.5 in f32 is that of f16's denormals, so this addition rounds them.
  llvm::Value* const denormal = builder.CreateSub(
      math.bits(math.add(math.from_bits(bits), math.real(0.5))), math.bits(math.real(0.5)));
  llvm::Value* const quiet_nan =
      builder.CreateOr(builder.CreateAnd(shifted, number(0x3ff)), number(0x7e00));

  llvm::Value* result =
      builder.CreateSelect(builder.CreateICmpULT(bits, number(kSmallestNormal)), denormal, normal);
  result =
      builder.CreateSelect(builder.CreateICmpUGE(bits, number(kTooLarge)), number(0x7c00), result);
  return builder.CreateSelect(builder.CreateICmpUGT(bits, number(kF32Infinity)), quiet_nan, result);
}

llvm::Value* narrow_to_f16(llvm::IRBuilderBase& builder, llvm::Value* x, llvm::Type* half) {
  LaneMath math(builder, x->getType());
  llvm::Value* const bits = math.bits(x);
  llvm::Value* const magnitude = builder.CreateAnd(bits, math.integer(0x7fffffff));
  llvm::Value* const sign =
      builder.CreateAnd(builder.CreateLShr(bits, math.integer(16)), math.integer(0x8000));
  llvm::Value* const result = builder.CreateOr(narrow_magnitude(math, magnitude), sign);
  llvm::Type* const i16 = x->getType()->getWithNewType(builder.getInt16Ty());
  return builder.CreateBitCast(builder.CreateTrunc(result, i16), half);
}

llvm::Value* widen_from_f16(llvm::IRBuilderBase& builder, llvm::Value* x, llvm::Type* f32) {
  LaneMath math(builder, f32);
  llvm::Type* const i16 = f32->getWithNewType(builder.getInt16Ty());
  llvm::Type* const i32 = f32->getWithNewType(builder.getInt32Ty());
  const auto number = [&](std::int64_t value) { return math.integer(value); };
  llvm::Value* const bits = builder.CreateZExt(builder.CreateBitCast(x, i16), i32);
  llvm::Value* const magnitude =
      builder.CreateShl(builder.CreateAnd(bits, number(0x7fff)), number(13));

  llvm::Value* const normal = builder.CreateAdd(magnitude, number(kBiasDifference));
  // Infinity and NaN: the exponent becomes all ones, a NaN quiet.
  llvm::Value* const special = builder.CreateOr(magnitude, number(kF32Infinity));
  llvm::Value* const infinity = number(0x1fLL << 23);
  llvm::Value* const quiet =
      builder.CreateSelect(builder.CreateICmpUGT(magnitude, infinity),
                           builder.CreateOr(special, number(0x400000)), special);
  // A denormal is what it adds to the smallest normal number when read as its mantissa.
  llvm::Value* const denormal = math.bits(math.sub(
      math.from_bits(builder.CreateAdd(magnitude, number(kSmallestNormal))), math.real(0x1p-14)));

  llvm::Value* result =
      builder.CreateSelect(builder.CreateICmpULT(magnitude, number(1 << 23)), denormal, normal);
  result = builder.CreateSelect(builder.CreateICmpUGE(magnitude, infinity), quiet, result);
  llvm::Value* const sign = builder.CreateShl(builder.CreateAnd(bits, number(0x8000)), number(16));
  return math.from_bits(builder.CreateOr(result, sign));
}

}  // namespace

llvm::Value* emit_f16_from_f32(llvm::IRBuilderBase& builder, llvm::Value* x) {
  llvm::Type* const half = x->getType()->getWithNewType(builder.getHalfTy());
  return uses_f16c(builder) ? builder.CreateFPTrunc(x, half) : narrow_to_f16(builder, x, half);
}

llvm::Value* emit_f32_from_f16(llvm::IRBuilderBase& builder, llvm::Value* x) {
  llvm::Type* const f32 = x->getType()->getWithNewType(builder.getFloatTy());
  return uses_f16c(builder) ? builder.CreateFPExt(x, f32) : widen_from_f16(builder, x, f32);
}

// Never by the processor's instruction, which takes denormals for zero.
llvm::Value* emit_bf16_from_f32(llvm::IRBuilderBase& builder, llvm::Value* x) {
  LaneMath math(builder, x->getType());
  llvm::Value* const bits = math.bits(x);
  llvm::Value* const last =
      builder.CreateAnd(builder.CreateLShr(bits, math.integer(16)), math.integer(1));
  llvm::Value* const rounded =
      builder.CreateAdd(bits, builder.CreateAdd(last, math.integer(0x7fff)));
  llvm::Value* const quiet = builder.CreateOr(bits, math.integer(0x400000));
  llvm::Value* const kept = builder.CreateSelect(builder.CreateFCmpUNO(x, x), quiet, rounded);
  return builder.CreateTrunc(builder.CreateLShr(kept, math.integer(16)),
                             x->getType()->getWithNewType(builder.getInt16Ty()));
}

llvm::Value* emit_bf16_pairs_from_f32(llvm::IRBuilderBase& builder, llvm::Value* first,
                                      llvm::Value* second) {
  constexpr unsigned kLanes = 16;
  llvm::Type* const words = first->getType()->getWithNewType(builder.getInt32Ty());
  auto* const type = llvm::dyn_cast<llvm::FixedVectorType>(first->getType());
  const bool whole = type != nullptr && type->getNumElements() == kLanes;
  if (whole && has_avx512_bf16(*builder.GetInsertBlock()->getModule())) {
    // The halves of its result come from one operand each.
    llvm::Value* const halves = builder.CreateBitCast(
        builder.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtne2ps2bf16_512, {},
                                {second, first}),
        llvm::FixedVectorType::get(builder.getInt16Ty(), 2 * kLanes));
    llvm::SmallVector<int, 2 * kLanes> order;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      order.push_back(static_cast<int>(lane));
      order.push_back(static_cast<int>(kLanes + lane));
    }
    return builder.CreateBitCast(builder.CreateShuffleVector(halves, order), words);
  }
  const auto word = [&](llvm::Value* x) {
    return builder.CreateZExt(emit_bf16_from_f32(builder, x), words);
  };
  return builder.CreateOr(word(first), builder.CreateShl(word(second), 16));
}

llvm::Value* emit_f32_from_bf16(llvm::IRBuilderBase& builder, llvm::Value* x) {
  LaneMath math(builder, x->getType()->getWithNewType(builder.getFloatTy()));
  llvm::Value* const bits =
      builder.CreateZExt(x, x->getType()->getWithNewType(builder.getInt32Ty()));
  return math.from_bits(builder.CreateShl(bits, math.integer(16)));
}

}  // namespace opweld::cpu
