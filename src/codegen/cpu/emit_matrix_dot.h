// Small matrices on AMX tiles. Private to this folder.
#pragma once

#include "codegen/cpu/emission.h"
#include "codegen/cpu/emit_expr.h"
#include "codegen/cpu/emit_memory.h"

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

  void load_configuration(llvm::Value* configuration);
  // Gives the tiles the rows of a dot that has fewer than whole tiles of them.
  void configure_rows(llvm::Value* rows);
  // The dot of one or two tiles of rows.
  void multiply(const Operands& operands, int row_tiles);
  void step(const Operands& operands, int row_tiles, llvm::Value* k);
  void load(int tile, llvm::Value* address, llvm::Value* stride);
  llvm::Value* after(llvm::Value* address, llvm::Value* bytes);
  void call(llvm::Intrinsic::ID id, llvm::ArrayRef<llvm::Value*> arguments);

  Emission& emission_;
  ExprEmitter& exprs_;
  MemoryEmitter& memory_;
  bool used_;
  llvm::Value* whole_ = nullptr;   // the configuration of whole tiles
  llvm::Value* ragged_ = nullptr;  // and one that is written as needed
};

}  // namespace opweld::cpu
