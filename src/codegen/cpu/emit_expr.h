// Expressions of a tile program as LLVM values. Private to this folder.
#pragma once

#include "codegen/cpu/emission.h"

namespace opweld::cpu {

class ExprEmitter {
 public:
  explicit ExprEmitter(Emission& emission) : emission_(emission) {}

  // The value where the builder stands: a vector of the current lanes if it varies between them.
  llvm::Value* value(Expr expr) { return scoped(expr).value; }
  // Its value in lane 0, as a scalar, for an expression that has a lane stride.
  llvm::Value* lane0(Expr expr) { return scoped_lane0(expr).value; }

  [[nodiscard]] bool varies(Expr expr) const {
    return emission_.lanes && emission_.lanes->facts->varies(expr);
  }

 private:
  Scoped scoped(Expr expr);
  Scoped scoped_lane0(Expr expr);
  Scoped leaf(const ExprNode& node);
  Scoped compound(const ExprNode& node, Scoped (ExprEmitter::*argument)(Expr));
  llvm::Value* size(const Dim& dim);
  llvm::Constant* constant(const ExprNode& node) const;

  Emission& emission_;
};

}  // namespace opweld::cpu
