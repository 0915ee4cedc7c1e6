#include "codegen/cpu/elementary.h"

#include <cassert>

#include "codegen/cpu/vector_math.h"

namespace opweld::cpu {

llvm::Value* emit_elementary(llvm::IRBuilder<>& builder, ExprKind kind,
                             std::span<llvm::Value* const> arguments) {
  llvm::Value* const x = arguments[0];
  switch (kind) {
    case ExprKind::Exp:
      return emit_exp(builder, x);
    case ExprKind::Log:
      return emit_log(builder, x);
    case ExprKind::Tanh:
      return emit_tanh(builder, x);
    case ExprKind::Erf:
      return emit_erf(builder, x);
    case ExprKind::Sigmoid:
      return emit_sigmoid(builder, x);
    case ExprKind::Sin:
      return emit_sin(builder, x);
    case ExprKind::Cos:
      return emit_cos(builder, x);
    case ExprKind::Pow:
      return emit_pow(builder, x, arguments[1]);
    case ExprKind::Fmod:
      return emit_fmod(builder, x, arguments[1]);
    default:
      assert(kind == ExprKind::Mod && "not an elementary function");
      return emit_mod(builder, x, arguments[1]);
  }
}

}  // namespace opweld::cpu
