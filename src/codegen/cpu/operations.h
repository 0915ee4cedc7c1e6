// LLVM code for one node of a scalar expression, on scalars or vectors. Private to this folder.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <span>

#include "ops/scalar_expr.h"

namespace opweld::cpu {

// What is known of the arguments.
struct OperationFacts {
  DType argument_type = DType::F32;  // compute type of the first argument
  bool nonnegative = false;          // integers: none of them is below zero
};

// The value of `node` for these arguments, all scalars or all vectors of one length; a Select may
// have a scalar condition. Does what apply_scalar (ops/scalar_semantics.h) does; the elementary
// functions keep to the error bounds of vector_math.h. Nothing that is emitted can trap, whatever
// the arguments: masked-off lanes hold anything.
llvm::Value* emit_operation(llvm::IRBuilder<>& builder, const ExprNode& node,
                            std::span<llvm::Value* const> arguments, const OperationFacts& facts);

// From an element as stored to its compute type and back: widens and narrows (f16 and bf16 to
// nearest even, integers wrap, bool is a byte 0 or 1).
llvm::Value* emit_widen(llvm::IRBuilder<>& builder, llvm::Value* stored, DType storage);
llvm::Value* emit_narrow(llvm::IRBuilder<>& builder, llvm::Value* value, DType storage);

}  // namespace opweld::cpu
