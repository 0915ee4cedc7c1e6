// Small matrices on AMX tiles. Private to this folder.
#pragma once

#include "codegen/cpu/emission.h"
#include "codegen/cpu/emit_expr.h"
#include "codegen/cpu/emit_memory.h"
#include "support/function_ref.h"

namespace opweld::cpu {

class MatrixDotEmitter {
 public:
  MatrixDotEmitter(Emission& emission, ExprEmitter& exprs, MemoryEmitter& memory)
      : emission_(emission),
        exprs_(exprs),
        memory_(memory),
        used_(tile::uses_matrix_unit(emission.program)) {}

  // At the head of the function and before each of its returns; nothing where no tiles are used.
  void configure();
  void release();

  void emit(const tile::MatrixDot& dot);

 private:
  struct Operands;

  // Gives the tiles the rows of a dot, if they do not have them.
  void configure_rows(llvm::Value* rows);
  // The dot of one or two tiles of rows.
  void multiply(const Operands& operands, int row_tiles);
  void step(const Operands& operands, int row_tiles, llvm::Value* k);
  // What the step at k fetches ahead.
  void fetch_ahead(const Operands& operands, llvm::Value* k);
  // for (variable = 0; variable < end; variable += step)
  void branch(llvm::Value* condition, FunctionRef<void()> then, FunctionRef<void()> otherwise);
  void load(int tile, llvm::Value* address, llvm::Value* stride);
  llvm::Value* after(llvm::Value* address, llvm::Value* bytes);
  void call(llvm::Intrinsic::ID id, llvm::ArrayRef<llvm::Value*> arguments);

  Emission& emission_;
  ExprEmitter& exprs_;
  MemoryEmitter& memory_;
  bool used_;
  llvm::Value* configuration_ = nullptr;  // in memory, as last loaded
  llvm::Value* ragged_rows_ = nullptr;    // the rows that it is for; 0 for whole tiles
};

}  // namespace opweld::cpu
