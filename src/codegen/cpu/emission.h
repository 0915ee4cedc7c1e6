// What is shared while one tile program becomes one LLVM function. Private to this folder.
//
// Where code goes. Emission follows the blocks of the program. Every copy of a block that is
// emitted (a loop body, one copy of an unrolled body, the masked tail of a vector loop) is a scope.
// An expression is emitted once per scope, into the outermost scope that has all it depends on:
// what is invariant in a loop stands before that loop, also divisions, which LLVM would not dare to
// move. That is sound because no emitted expression can trap. An `if` is a barrier: what is under
// it stays there.
//
// Scalars and vectors. Outside vector loops every value is a scalar. Inside, a value that differs
// between lanes is a vector; one that does not stays a scalar and is splat where the two meet.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/cpu/index_facts.h"
#include "codegen/cpu/jit_llvm.h"
#include "support/function_ref.h"
#include "tile/tile_ir.h"

namespace opweld::cpu {

// A value, and the scope that it was emitted into.
struct Scoped {
  llvm::Value* value = nullptr;
  int depth = 0;
};

class ScopeStack {
 public:
  explicit ScopeStack(llvm::IRBuilder<>& builder) : builder_(builder) {}

  // The index of the innermost scope; the function's own scope is 0.
  [[nodiscard]] int depth() const { return static_cast<int>(scopes_.size()) - 1; }

  // `entry`: the branch by which the scope is entered; null where control just runs into it.
  void open(llvm::Instruction* entry, bool barrier = false);
  void close() { scopes_.pop_back(); }

  // Where something that depends on values of scope `depth` is to be emitted.
  [[nodiscard]] int placement(int depth) const;

  // Emits by `make()` into scope `depth`.
  template <typename Make>
  Scoped emit(int depth, const Make& make) {
    llvm::Instruction* const point = insertion_point(depth);
    if (point == nullptr) return {make(), depth};
    const llvm::IRBuilderBase::InsertPointGuard guard(builder_);
    builder_.SetInsertPoint(point);
    return {make(), depth};
  }

  // Expressions already emitted: their value, and their value in lane 0 alone.
  enum class Part : std::uint8_t { Whole, Lane0 };
  [[nodiscard]] std::optional<Scoped> find(Part part, Expr expr) const;
  void remember(Part part, Expr expr, Scoped value);

 private:
  struct Scope {
    llvm::Instruction* entry = nullptr;
    bool barrier = false;
    std::unordered_map<Expr, llvm::Value*> values[2];  // by Part
  };

  // Null for the builder's own position.
  [[nodiscard]] llvm::Instruction* insertion_point(int depth) const;

  llvm::IRBuilder<>& builder_;
  std::vector<Scope> scopes_;
};

// The lanes that are being emitted.
struct Lanes {
  LaneFacts* facts = nullptr;   // of the vector loop
  llvm::Value* base = nullptr;  // i64: the loop variable in lane 0, a multiple of the lanes
  llvm::Value* mask = nullptr;  // the lanes that count, at least one; null for all
  int accumulator = 0;          // which accumulator reductions over the lanes go to
};

// Bytes that one prefetch brings.
inline constexpr int kCacheLine = 64;

struct Emission {
  Emission(const tile::TileProgram& tile_program, int bits, llvm::Module& llvm_module)
      : program(tile_program),
        pool(tile_program.exprs),
        index_facts(pool, tile_program.loop_names.size()),
        vector_bits(bits),
        module(llvm_module),
        context(llvm_module.getContext()),
        builder(context),
        scopes(builder),
        loops(tile_program.loop_names.size()),
        locals(tile_program.local_names.size()) {}
  Emission(const Emission&) = delete;
  Emission& operator=(const Emission&) = delete;

  // Compute types; bool is i1.
  [[nodiscard]] llvm::Type* scalar_type(DType type) const;
  // As in memory; f16 is half, bf16 its 16 bits, bool a byte.
  [[nodiscard]] llvm::Type* storage_type(DType type) const;
  [[nodiscard]] llvm::Type* vector_of(llvm::Type* element) const;  // of the current lanes
  [[nodiscard]] static bool is_vector(const llvm::Value* value) {
    return value->getType()->isVectorTy();
  }
  // A vector of the current lanes; a scalar is repeated.
  llvm::Value* splat(llvm::Value* value);
  // 0, 1, 2 ... as i64 lanes.
  [[nodiscard]] llvm::Constant* lane_numbers() const;
  // A slot in the frame, which LLVM's SROA turns into registers.
  llvm::AllocaInst* new_alloca(llvm::Type* type, const llvm::Twine& name);
  // for (variable = 0; variable < end; variable += step), all i64. It is no scope of its own: what
  // is emitted in its body may be used nowhere else.
  void loop(const llvm::Twine& name, llvm::Value* end, std::int64_t step,
            FunctionRef<void(llvm::Value* variable)> body);
  llvm::BasicBlock* new_block(const llvm::Twine& name);
  // then() or otherwise(), each giving as many values of the same types, or none; those of the
  // branch taken. Nothing else that they emit may be read elsewhere.
  using Values = std::vector<llvm::Value*>;
  Values branch(llvm::Value* condition, FunctionRef<Values()> then,
                FunctionRef<Values()> otherwise);

  const tile::TileProgram& program;
  ExprPool pool;  // the program's, and what offsets need beyond it
  IndexFacts index_facts;
  const int vector_bits;
  llvm::Module& module;
  llvm::LLVMContext& context;
  llvm::IRBuilder<> builder;
  ScopeStack scopes;
  llvm::Function* function = nullptr;

  std::vector<llvm::Value*> params;   // data pointers
  std::vector<llvm::Value*> buffers;  // scratch addresses or allocas
  std::vector<llvm::Value*> symbols;  // values, in the order of the program's symbols
  std::vector<Scoped> loops;          // values of loop variables
  std::vector<Scoped> locals;
  std::optional<Lanes> lanes;  // inside a vector loop
};

}  // namespace opweld::cpu
