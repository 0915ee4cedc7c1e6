// Statements of a tile program: loops, conditions, and what stands in them. Private to this folder.
#pragma once

#include "codegen/cpu/emission.h"
#include "codegen/cpu/emit_dot.h"
#include "codegen/cpu/emit_expr.h"
#include "codegen/cpu/emit_memory.h"
#include "codegen/cpu/emit_reduce.h"

namespace opweld::cpu {

class StatementEmitter {
 public:
  explicit StatementEmitter(Emission& emission)
      : emission_(emission),
        exprs_(emission),
        memory_(emission, exprs_),
        reduces_(emission, exprs_),
        dots_(emission, exprs_, memory_) {}

  void emit(const tile::Block& block);

  [[nodiscard]] ExprEmitter& exprs() { return exprs_; }
  [[nodiscard]] MemoryEmitter& memory() { return memory_; }
  // In the order of the codes that the function returns, from 1.
  [[nodiscard]] const std::vector<std::string>& check_messages() const { return check_messages_; }

  // for (variable = begin; variable < end; variable += step) body(variable), with a scope of its
  // own.
  void loop(const std::string& name, llvm::Value* begin, llvm::Value* end, std::int64_t step,
            const std::function<void(llvm::Value*)>& body);

 private:
  void emit(const tile::Statement& statement);
  void emit(const tile::ForLoop& loop);
  void emit(const tile::If& statement);
  void emit(const tile::Load& load);
  void emit(const tile::Map& map);
  void emit(const tile::Reduce& reduce) { reduces_.accumulate(reduce); }
  void emit(const tile::Dot& dot) { dots_.emit(dot); }
  void emit(const tile::Store& store) { memory_.store(store.to, store.value, store.where); }
  void emit(const tile::Check& check);

  void emit_serial(const tile::ForLoop& loop);
  void emit_unrolled(const tile::ForLoop& loop);
  void emit_vector(const tile::ForLoop& loop);
  // One vector of a vector loop: lanes from `base` on, as accumulator number `accumulator`.
  void emit_lanes(const tile::ForLoop& loop, LaneFacts& facts, llvm::Value* base, llvm::Value* mask,
                  int accumulator);
  // What whole iterations leave over.
  void emit_rest(const tile::ForLoop& loop, LaneFacts& facts, llvm::Value* first,
                 llvm::Value* extent);
  void emit_masked(const tile::ForLoop& loop, LaneFacts& facts, llvm::Value* base,
                   llvm::Value* extent, int accumulator);
  // if (condition) then(), with a scope of its own.
  void branch(llvm::Value* condition, const std::function<void()>& then);

  Emission& emission_;
  ExprEmitter exprs_;
  MemoryEmitter memory_;
  ReduceEmitter reduces_;
  DotEmitter dots_;
  std::vector<std::string> check_messages_;
};

}  // namespace opweld::cpu
