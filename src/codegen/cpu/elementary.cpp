#include "codegen/cpu/elementary.h"

#include <llvm/IR/Module.h>

#include <cassert>
#include <string>

namespace opweld::cpu {

namespace {

using Builder = llvm::IRBuilder<>;
using Arguments = std::span<llvm::Value* const>;

// The C library's function, lane by lane.
llvm::Value* call_library(Builder& builder, const std::string& name, Arguments arguments) {
  llvm::Type* const type = arguments[0]->getType();
  llvm::Type* const element = type->getScalarType();
  const std::vector<llvm::Type*> parameters(arguments.size(), element);
  llvm::Module* const module = builder.GetInsertBlock()->getModule();
  const llvm::FunctionCallee function =
      module->getOrInsertFunction(element->isFloatTy() ? name + "f" : name,
                                  llvm::FunctionType::get(element, parameters, false));
  const auto* const vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  if (vector == nullptr) {
    return builder.CreateCall(function, {arguments.data(), arguments.size()});
  }
  llvm::Value* result = llvm::PoisonValue::get(type);
  for (std::uint64_t lane = 0; lane < vector->getNumElements(); ++lane) {
    std::vector<llvm::Value*> elements;
    for (llvm::Value* const argument : arguments) {
      elements.push_back(builder.CreateExtractElement(argument, lane));
    }
    result = builder.CreateInsertElement(result, builder.CreateCall(function, elements), lane);
  }
  return result;
}

llvm::Value* real(const llvm::Value* like, double value) {
  return llvm::ConstantFP::get(like->getType(), value);
}

// 1 / (1 + exp(-x))
llvm::Value* sigmoid(Builder& builder, llvm::Value* x) {
  llvm::Value* const negated = builder.CreateFNeg(x);
  llvm::Value* const power = call_library(builder, "exp", {&negated, 1});
  return builder.CreateFDiv(real(x, 1), builder.CreateFAdd(real(x, 1), power));
}

// Floored modulo from the truncated one: the sign is the divisor's.
llvm::Value* floored_mod(Builder& builder, Arguments arguments) {
  llvm::Value* const divisor = arguments[1];
  llvm::Value* const zero = real(divisor, 0);
  llvm::Value* const rest = call_library(builder, "fmod", arguments);
  llvm::Value* const signs_differ =
      builder.CreateXor(builder.CreateFCmpOLT(rest, zero), builder.CreateFCmpOLT(divisor, zero));
  llvm::Value* const adjust = builder.CreateAnd(builder.CreateFCmpONE(rest, zero), signs_differ);
  llvm::Value* const shifted =
      builder.CreateSelect(adjust, builder.CreateFAdd(rest, divisor), rest);
  llvm::Value* const signed_zero =
      builder.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, rest, divisor);
  return builder.CreateSelect(builder.CreateFCmpOEQ(rest, zero), signed_zero, shifted);
}

}  // namespace

llvm::Value* emit_elementary(Builder& builder, ExprKind kind, Arguments arguments) {
  switch (kind) {
    case ExprKind::Exp:
      return call_library(builder, "exp", arguments);
    case ExprKind::Log:
      return call_library(builder, "log", arguments);
    case ExprKind::Tanh:
      return call_library(builder, "tanh", arguments);
    case ExprKind::Erf:
      return call_library(builder, "erf", arguments);
    case ExprKind::Sin:
      return call_library(builder, "sin", arguments);
    case ExprKind::Cos:
      return call_library(builder, "cos", arguments);
    case ExprKind::Pow:
      return call_library(builder, "pow", arguments);
    case ExprKind::Fmod:
      return call_library(builder, "fmod", arguments);
    case ExprKind::Mod:
      return floored_mod(builder, arguments);
    default:
      assert(kind == ExprKind::Sigmoid && "not an elementary function");
      return sigmoid(builder, arguments[0]);
  }
}

}  // namespace opweld::cpu
