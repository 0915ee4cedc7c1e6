// Mathematical functions as LLVM code, on scalars or on vectors of any number of lanes.
//
// What every function here keeps to:
// - A lane's result depends on that lane's argument alone: not on the number of lanes, not on the
//   target, not on the builder's fast-math flags. Only IEEE operations, each rounded once, and
//   explicit fused multiply-adds are emitted, never the processor's approximations. A masked tail
//   that computes on vectors is therefore bit-identical to the vector body.
// - NaN, infinities and signed zeros are as in C99 Annex F. Nothing traps on any argument, so lanes
//   that are masked off may hold anything. A NaN result is a quiet NaN of any payload.
// - Code is emitted at the builder's position without branches; where branches are needed, they are
//   in a function of their own that is added to the module and called.
//
// Largest errors, in units of the last place of the exact result (ulp), denormal results included.
// f32, over every finite argument, as tests/codegen/vector_math_ulp_test.cpp holds them to over a
// sample, and as docs/numerics.md promises:
//
//   exp 1.05   log 1.0   tanh 2.5   erf 1.5   sigmoid 2.5   sin 1.6   cos 1.6   pow 0.51
//
// f64 calls the C library for each lane (1 ulp in glibc; tanh and erf 2, sigmoid 2.5).
#pragma once

namespace llvm {
class IRBuilderBase;
class Value;
}  // namespace llvm

namespace opweld::cpu {

// f32 or f64.
llvm::Value* emit_exp(llvm::IRBuilderBase& builder, llvm::Value* x);
llvm::Value* emit_log(llvm::IRBuilderBase& builder, llvm::Value* x);
llvm::Value* emit_tanh(llvm::IRBuilderBase& builder, llvm::Value* x);
llvm::Value* emit_erf(llvm::IRBuilderBase& builder, llvm::Value* x);
llvm::Value* emit_sigmoid(llvm::IRBuilderBase& builder, llvm::Value* x);  // 1 / (1 + e^-x)
llvm::Value* emit_sin(llvm::IRBuilderBase& builder, llvm::Value* x);
llvm::Value* emit_cos(llvm::IRBuilderBase& builder, llvm::Value* x);
llvm::Value* emit_pow(llvm::IRBuilderBase& builder, llvm::Value* x, llvm::Value* y);

// f32 or f64; both exact. fmod has the sign of the dividend, as in C; mod that of the divisor, as
// Python's % and numpy.mod, where it is a zero as well. A zero divisor gives NaN.
llvm::Value* emit_fmod(llvm::IRBuilderBase& builder, llvm::Value* x, llvm::Value* y);
llvm::Value* emit_mod(llvm::IRBuilderBase& builder, llvm::Value* x, llvm::Value* y);

// Between f32 and the half types, rounding to nearest, ties to even, denormals kept, NaN to quiet
// NaN with its sign and the upper bits of its payload. f16 is LLVM's half, bf16 its 16 bits as i16.
// Uses F16C where the target has it; the bits are the same without.
llvm::Value* emit_f16_from_f32(llvm::IRBuilderBase& builder, llvm::Value* x);
llvm::Value* emit_f32_from_f16(llvm::IRBuilderBase& builder, llvm::Value* x);
llvm::Value* emit_bf16_from_f32(llvm::IRBuilderBase& builder, llvm::Value* x);
// The same of two at once, of which `first` goes to the lower half of each i32; by the processor's
// instruction where it has one, which takes denormals for zero.
llvm::Value* emit_bf16_pairs_from_f32(llvm::IRBuilderBase& builder, llvm::Value* first,
                                      llvm::Value* second);
llvm::Value* emit_f32_from_bf16(llvm::IRBuilderBase& builder, llvm::Value* x);

}  // namespace opweld::cpu
