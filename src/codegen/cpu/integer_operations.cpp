#include "codegen/cpu/integer_operations.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include <cassert>
#include <string>

namespace opweld::cpu {
namespace {

using Builder = llvm::IRBuilder<>;

llvm::Constant* number(const llvm::Value* like, std::int64_t value) {
  return llvm::ConstantInt::get(like->getType(), static_cast<std::uint64_t>(value), true);
}

// The one number in every lane, if `value` is a constant like that.
const llvm::APInt* constant(llvm::Value* value) {
  if (const auto* scalar = llvm::dyn_cast<llvm::ConstantInt>(value)) return &scalar->getValue();
  if (const auto* vector = llvm::dyn_cast<llvm::Constant>(value)) {
    const auto* lane = llvm::dyn_cast_or_null<llvm::ConstantInt>(vector->getSplatValue());
    if (lane != nullptr) return &lane->getValue();
  }
  return nullptr;
}

// Divisors that the processor would trap on are replaced; the caller repairs the result.
struct Divisor {
  llvm::Value* safe;
  llvm::Value* zero;       // where it is 0; null when that cannot be
  llvm::Value* minus_one;  // where it is -1; null when that cannot be
};

Divisor guard(Builder& builder, llvm::Value* b, bool nonnegative) {
  const llvm::APInt* const known = constant(b);
  Divisor divisor{b, nullptr, nullptr};
  if (known == nullptr || known->isZero()) divisor.zero = builder.CreateICmpEQ(b, number(b, 0));
  if (!nonnegative && (known == nullptr || known->isAllOnes())) {
    divisor.minus_one = builder.CreateICmpEQ(b, number(b, -1));
  }
  if (divisor.zero != nullptr) {
    divisor.safe = builder.CreateSelect(divisor.zero, number(b, 1), divisor.safe);
  }
  if (divisor.minus_one != nullptr) {
    divisor.safe = builder.CreateSelect(divisor.minus_one, number(b, 1), divisor.safe);
  }
  return divisor;
}

llvm::Value* divide(Builder& builder, llvm::Value* a, llvm::Value* b, bool nonnegative) {
  const Divisor divisor = guard(builder, b, nonnegative);
  llvm::Value* quotient =
      nonnegative ? builder.CreateUDiv(a, divisor.safe) : builder.CreateSDiv(a, divisor.safe);
  if (divisor.minus_one != nullptr) {
    quotient = builder.CreateSelect(divisor.minus_one, builder.CreateNeg(a), quotient);
  }
  if (divisor.zero != nullptr) {
    quotient = builder.CreateSelect(divisor.zero, number(a, 0), quotient);
  }
  return quotient;
}

// The rest has the sign of the dividend. For 0 and -1 the guard divides by 1, which leaves 0.
llvm::Value* truncated_mod(Builder& builder, llvm::Value* a, llvm::Value* b, bool nonnegative) {
  llvm::Value* const safe = guard(builder, b, nonnegative).safe;
  return nonnegative ? builder.CreateURem(a, safe) : builder.CreateSRem(a, safe);
}

llvm::Value* floored_mod(Builder& builder, llvm::Value* a, llvm::Value* b, bool nonnegative) {
  llvm::Value* const rest = truncated_mod(builder, a, b, nonnegative);
  if (nonnegative) return rest;
  llvm::Value* const zero = number(a, 0);
  llvm::Value* const signs_differ = builder.CreateICmpSLT(builder.CreateXor(rest, b), zero);
  llvm::Value* const correct = builder.CreateAnd(signs_differ, builder.CreateICmpNE(rest, zero));
  return builder.CreateSelect(correct, builder.CreateAdd(rest, b), rest);
}

llvm::Value* shift(Builder& builder, ExprKind kind, llvm::Value* a, llvm::Value* count) {
  const std::int64_t width = a->getType()->getScalarSizeInBits();
  llvm::Value* const in_range = builder.CreateICmpULT(count, number(count, width));
  llvm::Value* const safe = builder.CreateSelect(in_range, count, number(count, 0));
  llvm::Value* const shifted =
      kind == ExprKind::ShiftLeft ? builder.CreateShl(a, safe) : builder.CreateAShr(a, safe);
  return builder.CreateSelect(in_range, shifted, number(a, 0));
}

llvm::Value* sign(Builder& builder, llvm::Value* a) {
  llvm::Value* const zero = number(a, 0);
  llvm::Value* const positive = builder.CreateZExt(builder.CreateICmpSGT(a, zero), a->getType());
  llvm::Value* const negative = builder.CreateSExt(builder.CreateICmpSLT(a, zero), a->getType());
  return builder.CreateOr(positive, negative);
}

llvm::Value* any_lane(Builder& builder, llvm::Value* condition) {
  return condition->getType()->isVectorTy() ? builder.CreateOrReduce(condition) : condition;
}

// a^b for b < 0: the truncated reciprocal of a power.
llvm::Value* negative_power(Builder& builder, llvm::Value* a, llvm::Value* b) {
  llvm::Value* const one = number(a, 1);
  llvm::Value* const odd = builder.CreateICmpNE(builder.CreateAnd(b, one), number(a, 0));
  llvm::Value* const of_minus_one = builder.CreateSelect(odd, number(a, -1), one);
  llvm::Value* const is_minus_one = builder.CreateICmpEQ(a, number(a, -1));
  llvm::Value* const of_others = builder.CreateZExt(builder.CreateICmpEQ(a, one), a->getType());
  return builder.CreateSelect(is_minus_one, of_minus_one, of_others);
}

// The body of a function (a, b) -> a^b: squares and multiplies while any lane has exponent left.
void fill_power(llvm::Function& function) {
  llvm::LLVMContext& context = function.getContext();
  llvm::BasicBlock* const entry = llvm::BasicBlock::Create(context, "entry", &function);
  llvm::BasicBlock* const loop = llvm::BasicBlock::Create(context, "loop", &function);
  llvm::BasicBlock* const exit = llvm::BasicBlock::Create(context, "exit", &function);
  llvm::Value* const a = function.getArg(0);
  llvm::Value* const b = function.getArg(1);
  llvm::Type* const type = a->getType();
  Builder builder(entry);
  llvm::Value* const is_negative = builder.CreateICmpSLT(b, number(b, 0));
  llvm::Value* const magnitude = builder.CreateSelect(is_negative, number(b, 0), b);
  builder.CreateBr(loop);

  builder.SetInsertPoint(loop);
  auto* const result = builder.CreatePHI(type, 2);
  auto* const base = builder.CreatePHI(type, 2);
  auto* const exponent = builder.CreatePHI(type, 2);
  llvm::Value* const bit =
      builder.CreateTrunc(exponent, exponent->getType()->getWithNewBitWidth(1));
  llvm::Value* const next = builder.CreateSelect(bit, builder.CreateMul(result, base), result);
  llvm::Value* const square = builder.CreateMul(base, base);
  llvm::Value* const rest = builder.CreateLShr(exponent, number(b, 1));
  builder.CreateCondBr(any_lane(builder, builder.CreateICmpNE(rest, number(b, 0))), loop, exit);
  result->addIncoming(number(a, 1), entry);
  result->addIncoming(next, loop);
  base->addIncoming(a, entry);
  base->addIncoming(square, loop);
  exponent->addIncoming(magnitude, entry);
  exponent->addIncoming(rest, loop);

  builder.SetInsertPoint(exit);
  builder.CreateRet(builder.CreateSelect(is_negative, negative_power(builder, a, b), next));
}

// A loop cannot stand where an expression does, hence a function of its own, one for each type.
llvm::Value* power(Builder& builder, llvm::Value* a, llvm::Value* b) {
  llvm::Module& module = *builder.GetInsertBlock()->getModule();
  const auto* const vector = llvm::dyn_cast<llvm::FixedVectorType>(a->getType());
  const std::string name = "integer_power.i" + std::to_string(a->getType()->getScalarSizeInBits()) +
                           "x" + std::to_string(vector == nullptr ? 1 : vector->getNumElements());
  llvm::Function* function = module.getFunction(name);
  if (function == nullptr) {
    auto* const type = llvm::FunctionType::get(a->getType(), {a->getType(), a->getType()}, false);
    function = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, module);
    fill_power(*function);
  }
  return builder.CreateCall(function, {a, b});
}

}  // namespace

llvm::Value* emit_floor_div(Builder& builder, llvm::Value* a, llvm::Value* b) {
  llvm::Value* const rest = floored_mod(builder, a, b, false);
  return divide(builder, builder.CreateSub(a, rest), b, false);
}

llvm::Value* emit_integer_operation(Builder& builder, ExprKind kind,
                                    std::span<llvm::Value* const> arguments, bool nonnegative) {
  llvm::Value* const a = arguments[0];
  llvm::Value* const b = arguments.size() > 1 ? arguments[1] : nullptr;
  switch (kind) {
    case ExprKind::Add:
      return builder.CreateAdd(a, b);
    case ExprKind::Sub:
      return builder.CreateSub(a, b);
    case ExprKind::Mul:
      return builder.CreateMul(a, b);
    case ExprKind::Div:
      return divide(builder, a, b, nonnegative);
    case ExprKind::Mod:
      return floored_mod(builder, a, b, nonnegative);
    case ExprKind::Fmod:
      return truncated_mod(builder, a, b, nonnegative);
    case ExprKind::Min:
      return builder.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b);
    case ExprKind::Max:
      return builder.CreateBinaryIntrinsic(llvm::Intrinsic::smax, a, b);
    case ExprKind::Pow:
      return power(builder, a, b);
    case ExprKind::Neg:
      return builder.CreateNeg(a);
    case ExprKind::Abs:
      return builder.CreateBinaryIntrinsic(llvm::Intrinsic::abs, a, builder.getFalse());
    case ExprKind::Sign:
      return sign(builder, a);
    case ExprKind::Eq:
      return builder.CreateICmpEQ(a, b);
    case ExprKind::Ne:
      return builder.CreateICmpNE(a, b);
    case ExprKind::Lt:
      return builder.CreateICmpSLT(a, b);
    case ExprKind::Le:
      return builder.CreateICmpSLE(a, b);
    case ExprKind::And:
      return builder.CreateAnd(a, b);
    case ExprKind::Or:
      return builder.CreateOr(a, b);
    case ExprKind::Xor:
      return builder.CreateXor(a, b);
    case ExprKind::Not:
      return builder.CreateNot(a);
    default:
      assert((kind == ExprKind::ShiftLeft || kind == ExprKind::ShiftRight) &&
             "not an operation on integers");
      return shift(builder, kind, a, b);
  }
}

}  // namespace opweld::cpu
