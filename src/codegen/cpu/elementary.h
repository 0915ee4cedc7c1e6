// Elementary functions (exp, log, tanh ...) in LLVM code. Private to this folder.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <span>

#include "ops/scalar_expr.h"

namespace opweld::cpu {

// f32 or f64, scalars or vectors; Pow, Mod and Fmod take two arguments.
llvm::Value* emit_elementary(llvm::IRBuilder<>& builder, ExprKind kind,
                             std::span<llvm::Value* const> arguments);

}  // namespace opweld::cpu
