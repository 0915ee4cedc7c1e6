// sin and cos.
#include <llvm/IR/Module.h>

#include <numbers>
#include <string>

#include "codegen/cpu/vector_math.h"
#include "codegen/cpu/vector_math_coefficients.h"
#include "codegen/cpu/vector_math_lanes.h"

namespace opweld::cpu {
namespace {

// pi/2 in three parts of 24 bits each. Below kLarge, n = x / (pi/2) has 17 bits; n * kHalfPi1 is
// taken off x without rounding, since both are multiples of the same 2^-24 and the difference is
// below 1, and what the three parts leave out is 2^17 * 2^-76.
constexpr double kHalfPi1 = 0x1.921fb6p+0;
constexpr double kHalfPi2 = -0x1.777a5cp-25;
constexpr double kHalfPi3 = -0x1.ee59dap-50;
constexpr double kLarge = 0x1p17;

enum class Wave { Sin, Cos };

// Right for |x| < kLarge and NaN. With x = n pi/2 + r, |r| <= pi/4, n modulo 4 says which of
// +-sin(r), +-cos(r) it is.
llvm::Value* small_wave(LaneMath& math, llvm::Value* x, Wave wave) {
  llvm::IRBuilderBase& builder = math.builder();
  llvm::Value* const magnitude = math.abs(x);
  const LaneMath::Nearest n = math.nearest(magnitude, math.real(2 / std::numbers::pi));
  llvm::Value* r = math.fma(n.real, math.real(-kHalfPi1), magnitude);
  r = math.fma(n.real, math.real(-kHalfPi2), r);
  r = math.fma(n.real, math.real(-kHalfPi3), r);

  llvm::Value* const square = math.mul(r, r);
  llvm::Value* const sin_r = math.fma(math.mul(r, square), math.polynomial(square, kSin), r);
  llvm::Value* const head = math.fma(square, math.real(-0.5), math.real(1));
  llvm::Value* const cos_r =
      math.fma(math.mul(square, square), math.polynomial(square, kCos), head);

  // cos(x) = sin(x + pi/2)
  llvm::Value* const quarter =
      wave == Wave::Cos ? builder.CreateAdd(n.integer, math.integer(1)) : n.integer;
  llvm::Value* const is_odd =
      builder.CreateICmpNE(builder.CreateAnd(quarter, math.integer(1)), math.integer(0));
  llvm::Value* const value = builder.CreateSelect(is_odd, cos_r, sin_r);
  llvm::Value* sign =
      builder.CreateShl(builder.CreateAnd(quarter, math.integer(2)), math.integer(30));
  if (wave == Wave::Sin) {
    sign = builder.CreateXor(sign, builder.CreateAnd(math.bits(x), math.bits(math.real(-0.0))));
  }
  return math.from_bits(builder.CreateXor(math.bits(value), sign));
}

// The body of a function x -> sin(x) or cos(x): the C library's for lanes that are large.
void fill(llvm::Function& function, Wave wave) {
  llvm::LLVMContext& context = function.getContext();
  llvm::BasicBlock* const entry = llvm::BasicBlock::Create(context, "entry", &function);
  llvm::BasicBlock* const some_large = llvm::BasicBlock::Create(context, "large", &function);
  llvm::BasicBlock* const exit = llvm::BasicBlock::Create(context, "exit", &function);
  llvm::Value* x = function.getArg(0);

  llvm::IRBuilder<> builder(entry);
  LaneMath math(builder, x->getType());
  llvm::Value* const small = small_wave(math, x, wave);
  llvm::Value* const is_large = builder.CreateFCmpOGE(math.abs(x), math.real(kLarge));
  llvm::Value* const any_large =
      is_large->getType()->isVectorTy() ? builder.CreateOrReduce(is_large) : is_large;
  builder.CreateCondBr(any_large, some_large, exit);

  builder.SetInsertPoint(some_large);
  llvm::Value* const library = call_library(builder, wave == Wave::Sin ? "sin" : "cos", {&x, 1});
  llvm::Value* const mixed = builder.CreateSelect(is_large, library, small);
  builder.CreateBr(exit);

  builder.SetInsertPoint(exit);
  llvm::PHINode* const result = builder.CreatePHI(x->getType(), 2);
  result->addIncoming(small, entry);
  result->addIncoming(mixed, some_large);
  builder.CreateRet(result);
}

llvm::Value* wave_f32(llvm::IRBuilderBase& builder, llvm::Value* x, Wave wave) {
  llvm::Type* const type = x->getType();
  const auto* const vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  const std::string name = std::string(wave == Wave::Sin ? "sin" : "cos") + ".f32x" +
                           std::to_string(vector == nullptr ? 0 : vector->getNumElements());
  llvm::Module& module = *builder.GetInsertBlock()->getModule();
  llvm::Function* function = module.getFunction(name);
  if (function == nullptr) {
    function = llvm::Function::Create(llvm::FunctionType::get(type, {type}, false),
                                      llvm::Function::InternalLinkage, name, module);
    function->setDoesNotAccessMemory();
    function->setDoesNotThrow();
    function->addFnAttr(llvm::Attribute::WillReturn);
    fill(*function, wave);
  }
  return builder.CreateCall(function, {x});
}

}  // namespace

llvm::Value* emit_sin(llvm::IRBuilderBase& builder, llvm::Value* x) {
  if (x->getType()->getScalarType()->isDoubleTy()) return call_library(builder, "sin", {&x, 1});
  return wave_f32(builder, x, Wave::Sin);
}

llvm::Value* emit_cos(llvm::IRBuilderBase& builder, llvm::Value* x) {
  if (x->getType()->getScalarType()->isDoubleTy()) return call_library(builder, "cos", {&x, 1});
  return wave_f32(builder, x, Wave::Cos);
}

}  // namespace opweld::cpu
