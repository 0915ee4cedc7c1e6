// Reductions of a tile program. Private to this folder.
#pragma once

#include <map>

#include "codegen/cpu/emission.h"
#include "codegen/cpu/emit_expr.h"

namespace opweld::cpu {

class ReduceEmitter {
 public:
  ReduceEmitter(Emission& emission, ExprEmitter& exprs) : emission_(emission), exprs_(exprs) {}

  // Before the loop: accumulators for every reduction that runs over it, at their identity.
  void open(const tile::ForLoop& loop);
  // One element, or the current lanes, of a reduction.
  void accumulate(const tile::Reduce& reduce);
  // After the loop: the results become locals of the block around.
  void close(const tile::ForLoop& loop);

 private:
  // A value, and the position of its element in arg-reductions.
  struct Item {
    llvm::Value* value = nullptr;
    llvm::Value* position = nullptr;  // i64; -1 where there is no element yet
  };

  struct Accumulators {
    const tile::Reduce* reduce = nullptr;
    bool combines_lanes = false;  // into a scalar, when the loop ends
    std::vector<llvm::AllocaInst*> values;
    std::vector<llvm::AllocaInst*> positions;
  };

  void open_reduction(const tile::Reduce& reduce, const tile::ForLoop* vector_loop);
  void open_in_block(const tile::Block& block, int over, const tile::ForLoop* vector_loop);
  Item identity(const tile::Reduce& reduce) const;
  Item combine(const tile::Reduce& reduce, const Item& a, const Item& b);
  llvm::Value* arg_wins(tile::Combiner combiner, const Item& a, const Item& b);
  Item load(const Accumulators& accumulators, std::size_t index);
  Item combine_lanes(const tile::Reduce& reduce, Item item);

  Emission& emission_;
  ExprEmitter& exprs_;
  std::map<int, Accumulators> open_;  // by local
};

}  // namespace opweld::cpu
