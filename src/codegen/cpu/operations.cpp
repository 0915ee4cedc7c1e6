#include "codegen/cpu/operations.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include <cassert>

#include "codegen/cpu/elementary.h"
#include "codegen/cpu/integer_operations.h"
#include "codegen/cpu/vector_math.h"

namespace opweld::cpu {
namespace {

using Builder = llvm::IRBuilder<>;
using Arguments = std::span<llvm::Value* const>;

// `scalar`, or a vector of it as long as `like`.
llvm::Type* shaped(llvm::Type* scalar, const llvm::Value* like) {
  const auto* vector = llvm::dyn_cast<llvm::VectorType>(like->getType());
  return vector == nullptr ? scalar : llvm::VectorType::get(scalar, vector->getElementCount());
}

llvm::Type* scalar_type(llvm::LLVMContext& context, DType type) {
  switch (type) {
    case DType::F64:
      return llvm::Type::getDoubleTy(context);
    case DType::F32:
      return llvm::Type::getFloatTy(context);
    case DType::Bool:
      return llvm::Type::getInt1Ty(context);
    default:
      return llvm::Type::getIntNTy(context, static_cast<unsigned>(8 * byte_size(type)));
  }
}

llvm::Constant* real(const llvm::Value* like, double value) {
  return llvm::ConstantFP::get(like->getType(), value);
}

llvm::Value* intrinsic(Builder& builder, llvm::Intrinsic::ID id, Arguments arguments) {
  return builder.CreateIntrinsic(arguments[0]->getType(), id, {arguments.data(), arguments.size()});
}

llvm::Value* is_nan(Builder& builder, llvm::Value* a) {
  return builder.CreateFCmpUNO(a, a);
}

llvm::Value* float_sign(Builder& builder, llvm::Value* a) {
  llvm::Value* const zero = real(a, 0);
  llvm::Value* const positive = builder.CreateFCmpOGT(a, zero);
  llvm::Value* const negative = builder.CreateFCmpOLT(a, zero);
  llvm::Value* const sign =
      builder.CreateSelect(positive, real(a, 1), builder.CreateSelect(negative, real(a, -1), zero));
  return builder.CreateSelect(is_nan(builder, a), a, sign);
}

llvm::Value* is_infinite(Builder& builder, llvm::Value* a) {
  llvm::Value* const magnitude = builder.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a);
  return builder.CreateFCmpOEQ(magnitude, llvm::ConstantFP::getInfinity(a->getType()));
}

llvm::Value* float_operation(Builder& builder, ExprKind kind, Arguments arguments) {
  llvm::Value* const a = arguments[0];
  switch (kind) {
    case ExprKind::Add:
      return builder.CreateFAdd(a, arguments[1]);
    case ExprKind::Sub:
      return builder.CreateFSub(a, arguments[1]);
    case ExprKind::Mul:
      return builder.CreateFMul(a, arguments[1]);
    case ExprKind::Div:
      return builder.CreateFDiv(a, arguments[1]);
    case ExprKind::Min:
      return intrinsic(builder, llvm::Intrinsic::minimum, arguments);
    case ExprKind::Max:
      return intrinsic(builder, llvm::Intrinsic::maximum, arguments);
    case ExprKind::Fma:
      return intrinsic(builder, llvm::Intrinsic::fma, arguments);
    case ExprKind::Neg:
      return builder.CreateFNeg(a);
    case ExprKind::Abs:
      return intrinsic(builder, llvm::Intrinsic::fabs, arguments);
    case ExprKind::Sign:
      return float_sign(builder, a);
    case ExprKind::Sqrt:
      return intrinsic(builder, llvm::Intrinsic::sqrt, arguments);
    case ExprKind::Rsqrt:
      return builder.CreateFDiv(real(a, 1), intrinsic(builder, llvm::Intrinsic::sqrt, arguments));
    case ExprKind::Reciprocal:
      return builder.CreateFDiv(real(a, 1), a);
    case ExprKind::Floor:
      return intrinsic(builder, llvm::Intrinsic::floor, arguments);
    case ExprKind::Ceil:
      return intrinsic(builder, llvm::Intrinsic::ceil, arguments);
    case ExprKind::Round:
      return intrinsic(builder, llvm::Intrinsic::roundeven, arguments);
    case ExprKind::Eq:
      return builder.CreateFCmpOEQ(a, arguments[1]);
    case ExprKind::Ne:
      return builder.CreateFCmpUNE(a, arguments[1]);
    case ExprKind::Lt:
      return builder.CreateFCmpOLT(a, arguments[1]);
    case ExprKind::Le:
      return builder.CreateFCmpOLE(a, arguments[1]);
    case ExprKind::IsNan:
      return is_nan(builder, a);
    case ExprKind::IsInf:
      return is_infinite(builder, a);
    default:
      return emit_elementary(builder, kind, arguments);
  }
}

llvm::Value* bool_operation(Builder& builder, ExprKind kind, Arguments arguments) {
  llvm::Value* const a = arguments[0];
  switch (kind) {
    case ExprKind::Eq:
      return builder.CreateICmpEQ(a, arguments[1]);
    case ExprKind::Ne:
    case ExprKind::Xor:
      return builder.CreateXor(a, arguments[1]);
    case ExprKind::Lt:
      return builder.CreateICmpULT(a, arguments[1]);
    case ExprKind::Le:
      return builder.CreateICmpULE(a, arguments[1]);
    case ExprKind::And:
      return builder.CreateAnd(a, arguments[1]);
    case ExprKind::Or:
      return builder.CreateOr(a, arguments[1]);
    default:
      assert(kind == ExprKind::Not && "not an operation on bool");
      return builder.CreateNot(a);
  }
}

llvm::Value* convert(Builder& builder, llvm::Value* a, DType from, DType to) {
  llvm::Type* const type = shaped(scalar_type(builder.getContext(), to), a);
  if (to == DType::Bool) {
    llvm::Value* const zero = llvm::Constant::getNullValue(a->getType());
    return is_float(from) ? builder.CreateFCmpUNE(a, zero) : builder.CreateICmpNE(a, zero);
  }
  if (is_float(from)) {
    if (is_float(to)) return builder.CreateFPCast(a, type);
    return builder.CreateIntrinsic(llvm::Intrinsic::fptosi_sat, {type, a->getType()}, {a});
  }
  if (is_float(to)) {
    return from == DType::Bool ? builder.CreateUIToFP(a, type) : builder.CreateSIToFP(a, type);
  }
  return builder.CreateIntCast(a, type, from != DType::Bool);
}

}  // namespace

llvm::Value* emit_operation(Builder& builder, const ExprNode& node, Arguments arguments,
                            const OperationFacts& facts) {
  switch (node.kind) {
    case ExprKind::Select:
      return builder.CreateSelect(arguments[0], arguments[1], arguments[2]);
    case ExprKind::Convert:
      return convert(builder, arguments[0], facts.argument_type, node.type);
    case ExprKind::Store:
      return emit_widen(builder, emit_narrow(builder, arguments[0], node.storage), node.storage);
    default:
      break;
  }
  if (is_float(facts.argument_type)) return float_operation(builder, node.kind, arguments);
  if (facts.argument_type == DType::Bool) return bool_operation(builder, node.kind, arguments);
  return emit_integer_operation(builder, node.kind, arguments, facts.nonnegative);
}

llvm::Value* emit_widen(Builder& builder, llvm::Value* stored, DType storage) {
  const auto widened = [&](DType type) {
    return shaped(scalar_type(builder.getContext(), type), stored);
  };
  switch (storage) {
    case DType::F16:
      return emit_f32_from_f16(builder, stored);
    case DType::BF16:
      return emit_f32_from_bf16(builder, stored);
    case DType::I16:
    case DType::I8:
      return builder.CreateSExt(stored, widened(DType::I32));
    case DType::U8:
      return builder.CreateZExt(stored, widened(DType::I32));
    case DType::Bool:
      return builder.CreateICmpNE(stored, llvm::Constant::getNullValue(stored->getType()));
    default:
      return stored;
  }
}

llvm::Value* emit_narrow(Builder& builder, llvm::Value* value, DType storage) {
  const auto narrowed = [&](llvm::Type* type) { return shaped(type, value); };
  switch (storage) {
    case DType::F16:
      return emit_f16_from_f32(builder, value);
    case DType::BF16:
      return emit_bf16_from_f32(builder, value);
    case DType::I16:
      return builder.CreateTrunc(value, narrowed(builder.getInt16Ty()));
    case DType::I8:
    case DType::U8:
      return builder.CreateTrunc(value, narrowed(builder.getInt8Ty()));
    case DType::Bool:
      return builder.CreateZExt(value, narrowed(builder.getInt8Ty()));
    default:
      return value;
  }
}

}  // namespace opweld::cpu
