// A Dim made ready to be evaluated often: symbols are read from a flat array, no maps, no
// allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "support/dim.h"
#include "support/expected.h"

namespace opweld {

class CompiledDim {
 public:
  CompiledDim() = default;  // the constant zero

  // symbol_names[i] names the symbol whose value evaluate() finds at values[i]. Fails on overflow
  // and on a symbol that is not in the list.
  static Expected<CompiledDim> compile(const Dim& dim, std::span<const std::string> symbol_names);

  // `values` must satisfy the constraints of their symbols (SymbolInfo::check); they are not
  // checked again. Fails where an intermediate result leaves int64, or on a division by zero.
  [[nodiscard]] Expected<int64_t> evaluate(std::span<const int64_t> values) const;

  [[nodiscard]] bool is_constant() const { return program_.empty(); }

  enum class Opcode : uint8_t { Constant, Symbol, Add, Multiply, FloorDiv, Min };

  // Works on a stack: Constant and Symbol push, the others replace the two topmost values.
  struct Instruction {
    Opcode opcode = Opcode::Constant;
    uint32_t symbol = 0;  // Symbol: index into the values
    int64_t operand = 0;  // Constant: the value. Symbol: what to divide it by, without a rest
  };

  // The inverse of instructions(), which may come from anywhere: fails where they do not leave
  // exactly one value, or speak of a symbol past the first `symbols`.
  static Expected<CompiledDim> from_instructions(std::span<const Instruction> instructions,
                                                 std::size_t symbols);

  // The same as instructions, for whoever makes other code of them. Leaves one value on the stack.
  [[nodiscard]] std::vector<Instruction> instructions() const {
    if (program_.empty()) return {{Opcode::Constant, 0, constant_}};
    return program_;
  }

 private:
  friend class DimCompiler;

  [[nodiscard]] const char* run(std::span<const int64_t> values, int64_t* stack) const;

  int64_t constant_ = 0;  // the result, if there is no program
  std::vector<Instruction> program_;
  int stack_size_ = 0;
};

}  // namespace opweld
