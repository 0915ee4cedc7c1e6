// Loads and stores of a tile program. Private to this folder.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "codegen/cpu/emission.h"
#include "codegen/cpu/emit_expr.h"

namespace opweld::cpu {

class MemoryEmitter {
 public:
  MemoryEmitter(Emission& emission, ExprEmitter& exprs) : emission_(emission), exprs_(exprs) {}

  // The element in its compute type, 0 where `where` (which may be absent) does not hold: a vector
  // if it differs between the current lanes.
  llvm::Value* load(const tile::Access& access, Expr where);
  void store(const tile::Store& store);
  void store_pair(const tile::Access& access, Expr first, Expr second);
  void store_interleaved(const tile::Access& access, Expr first, Expr second);
  // Every cache line of consecutive lanes; lanes that lie apart are not worth an address each.
  void prefetch(const tile::Access& access);

  // The address of a linear access outside vector loops.
  llvm::Value* address(const tile::Access& access);
  // Tells LLVM which memory an instruction touches.
  template <typename Instruction>
  Instruction* mark(Instruction* instruction, const tile::Access& access) {
    add_alias_facts(instruction, alias_facts(access));
    return instruction;
  }

  // To be called once, before anything else.
  void make_alias_facts();

 private:
  struct AliasFacts {
    llvm::MDNode* scope = nullptr;
    llvm::MDNode* no_alias = nullptr;
  };

  // Where the lanes of an access lie.
  struct Place {
    enum class Kind : std::uint8_t { Uniform, Contiguous, Strided, Scattered };
    Kind kind = Kind::Uniform;
    DType dtype = DType::F32;
    llvm::Type* type = nullptr;      // of one stored element
    llvm::Value* pointer = nullptr;  // of lane 0; Scattered: of every lane, a vector
    llvm::Value* stride = nullptr;   // Strided: elements from lane to lane
    AliasFacts alias;
    // Registers: no instruction may index them, so lanes are told by number.
    const tile::Buffer* registers = nullptr;
    std::int64_t first = 0;  // the element in lane 0
  };

  // `type`: of one element; null: as the memory has it.
  Place place(const tile::Access& access, llvm::Type* type = nullptr);
  Expr linear_offset(const tile::Access& access);
  AliasFacts alias_facts(const tile::Access& access) const;
  static void add_alias_facts(llvm::Instruction* instruction, const AliasFacts& facts);
  llvm::Value* lane_pointer(const Place& place, int lane);
  llvm::Value* lane_pointers(const Place& place);
  [[nodiscard]] llvm::Align align(const Place& place) const;

  // The mask of the current lanes, null for all; alone, and with a further condition.
  [[nodiscard]] llvm::Value* current_mask() const;
  llvm::Value* with_current_mask(llvm::Value* condition);
  [[nodiscard]] bool has_masked_instruction(const Place& place) const;

  // The value of `dtype`, as it is stored.
  llvm::Value* narrowed(Expr value, DType dtype);
  // Elements as stored. A condition may be null, a scalar or a vector; a mask null or a vector.
  llvm::Value* load_where(const Place& place, llvm::Value* condition);
  llvm::Value* load_elements(const Place& place, llvm::Value* mask);
  llvm::Value* load_lane_by_lane(const Place& place);
  void store_where(const Place& place, llvm::Value* elements, llvm::Value* condition);
  void store_elements(const Place& place, llvm::Value* elements, llvm::Value* mask);
  // Of a whole vector: past the caches where the condition holds.
  void store_past_caches(const Place& place, llvm::Value* elements, llvm::Value* condition);
  void store_lane_by_lane(const Place& place, llvm::Value* elements);

  // emit_registers.cpp
  template <typename Visit>
  void for_each_register(const Place& place, const Visit& visit);
  llvm::Value* load_registers(const Place& place);
  void store_registers(const Place& place, llvm::Value* elements, llvm::Value* mask);

  Emission& emission_;
  ExprEmitter& exprs_;
  // Of values that were loaded and widened, the elements as they were stored: what is only moved
  // need not be rounded back.
  std::map<const llvm::Value*, std::pair<llvm::Value*, DType>> stored_as_;
  std::vector<AliasFacts> param_facts_;
  std::vector<AliasFacts> buffer_facts_;
};

}  // namespace opweld::cpu
