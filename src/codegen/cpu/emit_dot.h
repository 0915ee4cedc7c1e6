// The matrix micro-kernel. Private to this folder.
#pragma once

#include <span>

#include "codegen/cpu/emission.h"
#include "codegen/cpu/emit_expr.h"
#include "codegen/cpu/emit_memory.h"

namespace opweld::cpu {

class DotEmitter {
 public:
  DotEmitter(Emission& emission, ExprEmitter& exprs, MemoryEmitter& memory)
      : emission_(emission), exprs_(exprs), memory_(memory) {}

  void emit(const tile::Dot& dot);

 private:
  // A rows x vectors tile, row by row.
  using Tile = std::vector<llvm::Value*>;

  struct Operands {
    const tile::Dot* dot = nullptr;
    int lanes = 0;
    int vectors = 0;                         // of a row
    llvm::Type* accumulator_type = nullptr;  // one vector
    llvm::Value* a = nullptr;
    llvm::Value* a_row_stride = nullptr;
    llvm::Value* a_depth_stride = nullptr;
    llvm::Value* b = nullptr;
    llvm::Value* b_depth_stride = nullptr;
    std::vector<llvm::Value*> b_offsets;  // of each vector of a row
    llvm::Value* ahead = nullptr;         // null: nothing is fetched ahead
    llvm::Value* ahead_stride = nullptr;  // in elements, of a step
    DType a_dtype = DType::F32;
    DType b_dtype = DType::F32;
  };

  Operands operands(const tile::Dot& dot);
  // The steps in [0, end), a multiple of the unrolling: a loop for each rate of fetching ahead, of
  // which the first that is enough runs.
  Tile main_loop(const Operands& operands, const Tile& tile, llvm::Value* end,
                 std::span<const int> rates);
  // for (k = begin; k < end; k += steps): the steps, one after the other. Returns the tile after
  // it. Each step fetches so many elements ahead.
  Tile loop(const Operands& operands, Tile tile, llvm::Value* begin, llvm::Value* end, int steps,
            int ahead_rate);
  // Fetches what `steps` steps from k on fetch ahead, and what is behind it up to the rate.
  void fetch_ahead(const Operands& operands, llvm::Value* k, int steps, int rate);
  void step(const Operands& operands, Tile& tile, llvm::Value* k);
  llvm::Value* load_a(const Operands& operands, int row, llvm::Value* k);
  llvm::Value* load_b(const Operands& operands, int vector, llvm::Value* k);
  llvm::Value* multiply_add(llvm::Value* a, llvm::Value* b, llvm::Value* c);
  llvm::Value* accumulator_address(const Operands& operands, int row, int vector);

  Emission& emission_;
  ExprEmitter& exprs_;
  MemoryEmitter& memory_;
};

}  // namespace opweld::cpu
