// Transposition of blocks in vector registers. Private to this folder.
#pragma once

#include <vector>

#include "codegen/cpu/emission.h"
#include "codegen/cpu/emit_expr.h"
#include "codegen/cpu/emit_memory.h"

namespace opweld::cpu {

class TransposeEmitter {
 public:
  TransposeEmitter(Emission& emission, ExprEmitter& exprs, MemoryEmitter& memory)
      : emission_(emission), exprs_(exprs), memory_(memory) {}

  void emit(const tile::Transpose& statement);

 private:
  struct Operands;
  using Words = std::vector<llvm::Value*>;  // vectors of as many words as there are vectors

  // Words of the block that begins at (row, column) of `from`, with zeros past its ends.
  Words load(const Operands& operands, llvm::Value* row, llvm::Value* column, bool whole);
  // Elements of one row of `from`, from `column` on; under a mask if it is not null.
  llvm::Value* load_row(const Operands& operands, llvm::Value* row, llvm::Value* column,
                        llvm::Value* mask);
  Words transposed(const Words& rows);
  llvm::Value* number(std::int64_t value);

  Emission& emission_;
  ExprEmitter& exprs_;
  MemoryEmitter& memory_;
};

}  // namespace opweld::cpu
