// The two remainders of floating-point division.
#include "codegen/cpu/vector_math.h"
#include "codegen/cpu/vector_math_lanes.h"

namespace opweld::cpu {

llvm::Value* emit_fmod(llvm::IRBuilderBase& builder, llvm::Value* x, llvm::Value* y) {
  llvm::Value* const arguments[] = {x, y};
  return call_library(builder, "fmod", arguments);
}

llvm::Value* emit_mod(llvm::IRBuilderBase& builder, llvm::Value* x, llvm::Value* y) {
  LaneMath math(builder, x->getType());
  llvm::Value* const zero = math.real(0);
  llvm::Value* const rest = emit_fmod(builder, x, y);
  llvm::Value* const signs_differ =
      builder.CreateXor(builder.CreateFCmpOLT(rest, zero), builder.CreateFCmpOLT(y, zero));
  llvm::Value* const moved = builder.CreateSelect(signs_differ, math.add(rest, y), rest);
  return builder.CreateSelect(builder.CreateFCmpOEQ(rest, zero), math.copy_sign(rest, y), moved);
}

}  // namespace opweld::cpu
