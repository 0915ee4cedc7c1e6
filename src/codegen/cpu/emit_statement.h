// Statements of a tile program: loops, conditions, and what stands in them. Private to this folder.
#pragma once

#include <map>
#include <string>

#include "codegen/cpu/emission.h"
#include "codegen/cpu/emit_dot.h"
#include "codegen/cpu/emit_expr.h"
#include "codegen/cpu/emit_matrix_dot.h"
#include "codegen/cpu/emit_memory.h"
#include "codegen/cpu/emit_reduce.h"
#include "codegen/cpu/emit_transpose.h"
#include "support/function_ref.h"

namespace opweld::cpu {

class StatementEmitter {
 public:
  explicit StatementEmitter(Emission& emission);

  void emit(const tile::Block& block);

  [[nodiscard]] ExprEmitter& exprs() { return exprs_; }
  [[nodiscard]] MemoryEmitter& memory() { return memory_; }
  [[nodiscard]] MatrixDotEmitter& matrix_dots() { return matrix_dots_; }
  // for (variable = begin; variable < end; variable += step) body(variable), a scope of its own.
  void loop(const std::string& name, llvm::Value* begin, llvm::Value* end, std::int64_t step,
            FunctionRef<void(llvm::Value*)> body);

 private:
  void emit(const tile::Statement& statement);
  void emit(const tile::ForLoop& loop);
  void emit(const tile::If& statement);
  void emit(const tile::Keep& keep);
  void emit(const tile::Load& load);
  void emit(const tile::Map& map);
  void emit(const tile::Reduce& reduce) { reduces_.accumulate(reduce); }
  void emit(const tile::Dot& dot) { dots_.emit(dot); }
  void emit(const tile::MatrixDot& dot) { matrix_dots_.emit(dot); }
  void emit(const tile::Transpose& transpose) { transposes_.emit(transpose); }
  void emit(const tile::StoreInterleaved& store) {
    memory_.store_interleaved(store.to, store.first, store.second);
  }
  void emit(const tile::StorePair& store) {
    memory_.store_pair(store.to, store.first, store.second);
  }
  void emit(const tile::Store& store) { memory_.store(store); }
  void emit(const tile::Prefetch& prefetch) { memory_.prefetch(prefetch.from); }
  void emit(const tile::Check& check);
  void emit(const tile::Arrive& arrive);

  void emit_serial(const tile::ForLoop& loop);
  void emit_unrolled(const tile::ForLoop& loop);
  // if (condition) then(), a scope of its own. What does not depend on the scope may be computed
  // before it, condition or not, unless it is a barrier.
  void branch(llvm::Value* condition, bool barrier, FunctionRef<void()> then);

  // emit_vector_loop.cpp
  struct VectorLoop;
  void emit_vector(const tile::ForLoop& loop);
  void emit_straight(VectorLoop& loop, std::int64_t extent);
  void emit_rest(VectorLoop& loop, llvm::Value* first, llvm::Value* extent);
  void emit_lanes(VectorLoop& loop, llvm::Value* base, llvm::Value* mask, int accumulator);
  void emit_last_lanes(VectorLoop& loop, llvm::Value* base, llvm::Value* extent, int accumulator);
  llvm::Value* lanes_below(VectorLoop& loop, llvm::Value* count);

  Emission& emission_;
  ExprEmitter exprs_;
  MemoryEmitter memory_;
  ReduceEmitter reduces_;
  DotEmitter dots_;
  MatrixDotEmitter matrix_dots_;
  TransposeEmitter transposes_;
  std::map<const tile::Check*, std::uint32_t> check_codes_;
};

}  // namespace opweld::cpu
