// Integer arithmetic of the scalar language in LLVM code: wraps, and never traps. Private to this
// folder.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <span>

#include "ops/scalar_expr.h"

namespace opweld::cpu {

// i32 or i64, scalars or vectors. With `nonnegative` no argument is below zero, which makes
// divisions cheaper.
llvm::Value* emit_integer_operation(llvm::IRBuilder<>& builder, ExprKind kind,
                                    std::span<llvm::Value* const> arguments, bool nonnegative);

// Towards minus infinity, as sizes divide; 0 for b = 0.
llvm::Value* emit_floor_div(llvm::IRBuilder<>& builder, llvm::Value* a, llvm::Value* b);

}  // namespace opweld::cpu
