#include "support/compiled_dim.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "support/dim_polynomial.h"

namespace opweld {

using namespace dim_detail;

// Translates one expression to a stack program.
class DimCompiler {
 public:
  explicit DimCompiler(std::span<const std::string> symbol_names) : symbol_names_(symbol_names) {}

  Expected<CompiledDim> compile(const Dim& dim) {
    if (dim.is_overflow()) return fail("a size is too large to be represented");
    if (dim.is_constant()) {
      result_.constant_ = *dim.constant();
      return std::move(result_);
    }
    OPWELD_CHECK(emit(dim));
    return std::move(result_);
  }

 private:
  using Opcode = CompiledDim::Opcode;

  void push(CompiledDim::Instruction instruction) {
    result_.program_.push_back(instruction);
    result_.stack_size_ = std::max(result_.stack_size_, ++depth_);
  }

  void combine(Opcode opcode) {
    result_.program_.push_back({opcode, 0, 0});
    --depth_;
  }

  Status emit(const Dim& dim) {
    if (dim.is_constant()) {
      push({Opcode::Constant, 0, *dim.constant()});
      return {};
    }
    const Terms& terms = dim.polynomial()->terms;
    for (size_t i = 0; i < terms.size(); ++i) {
      OPWELD_CHECK(emit(terms[i]));
      if (i > 0) combine(Opcode::Add);
    }
    return {};
  }

  Status emit(const Term& term) {
    bool first = true;
    if (term.coefficient != 1 || term.factors.empty()) {
      push({Opcode::Constant, 0, term.coefficient});
      first = false;
    }
    for (const auto& [atom, power] : term.factors) {
      for (int i = 0; i < power; ++i) {
        OPWELD_CHECK(emit(*atom));
        if (!first) combine(Opcode::Multiply);
        first = false;
      }
    }
    return {};
  }

  Status emit(const Atom& atom) {
    if (atom.kind == AtomKind::Symbol) {
      const auto place = std::find(symbol_names_.begin(), symbol_names_.end(), atom.symbol->name);
      if (place == symbol_names_.end()) {
        return usage_error("the size {} is not known; give it a value",
                           symbol_reference(atom.symbol->name));
      }
      push({Opcode::Symbol, static_cast<uint32_t>(place - symbol_names_.begin()),
            atom.symbol->range.divisor});
      return {};
    }
    const Opcode opcode = atom.kind == AtomKind::FloorDiv ? Opcode::FloorDiv : Opcode::Min;
    for (size_t i = 0; i < atom.arguments.size(); ++i) {
      OPWELD_CHECK(emit(atom.arguments[i]));
      if (i > 0) combine(opcode);
    }
    return {};
  }

  std::span<const std::string> symbol_names_;
  CompiledDim result_;
  int depth_ = 0;
};

Expected<CompiledDim> CompiledDim::compile(const Dim& dim,
                                           std::span<const std::string> symbol_names) {
  return DimCompiler(symbol_names).compile(dim);
}

Expected<CompiledDim> CompiledDim::from_instructions(std::span<const Instruction> instructions,
                                                     std::size_t symbols) {
  CompiledDim dim;
  int depth = 0;
  for (const Instruction& each : instructions) {
    if (each.opcode > Opcode::Min) return fail("a size is computed by an unknown instruction");
    const bool pushes = each.opcode == Opcode::Constant || each.opcode == Opcode::Symbol;
    if (each.opcode == Opcode::Symbol && (each.symbol >= symbols || each.operand < 1)) {
      return fail("a size is computed from a symbol that is not there");
    }
    if (!pushes && depth < 2) return fail("a size is computed from too few values");
    depth += pushes ? 1 : -1;
    dim.stack_size_ = std::max(dim.stack_size_, depth);
  }
  if (depth != 1) return fail("a size is computed to {} values", depth);
  if (instructions.size() == 1 && instructions.front().opcode == Opcode::Constant) {
    dim.constant_ = instructions.front().operand;
    dim.stack_size_ = 0;
  } else {
    dim.program_.assign(instructions.begin(), instructions.end());
  }
  return dim;
}

// Leaves the result in stack[0]; returns what went wrong, or null.
const char* CompiledDim::run(std::span<const int64_t> values, int64_t* stack) const {
  static constexpr const char* kOverflow = "a size is too large to be represented";
  int64_t* top = stack - 1;
  for (const Instruction& instruction : program_) {
    if (instruction.opcode == Opcode::Constant) {
      *++top = instruction.operand;
      continue;
    }
    if (instruction.opcode == Opcode::Symbol) {
      assert(instruction.symbol < values.size());
      const int64_t value = values[instruction.symbol];
      *++top = instruction.operand == 1 ? value : value / instruction.operand;
      continue;
    }
    const int64_t right = *top--;
    int64_t& left = *top;
    switch (instruction.opcode) {
      case Opcode::Add:
        if (__builtin_add_overflow(left, right, &left)) return kOverflow;
        break;
      case Opcode::Multiply:
        if (__builtin_mul_overflow(left, right, &left)) return kOverflow;
        break;
      case Opcode::FloorDiv:
        if (right == 0) return "a size is divided by zero";
        if (right == -1 && left == Dim::kMinusInfinity) return kOverflow;
        left = floor_quotient(left, right);
        break;
      default:
        left = std::min(left, right);
        break;
    }
  }
  return nullptr;
}

Expected<int64_t> CompiledDim::evaluate(std::span<const int64_t> values) const {
  if (program_.empty()) return constant_;
  std::array<int64_t, 32> small_stack;
  std::vector<int64_t> large_stack;
  int64_t* stack = small_stack.data();
  if (stack_size_ > static_cast<int>(small_stack.size())) {
    large_stack.resize(static_cast<size_t>(stack_size_));
    stack = large_stack.data();
  }
  if (const char* problem = run(values, stack)) return fail("{}", problem);
  return stack[0];
}

namespace {

// The value without a program for it, in the order of the program's operations; nothing where
// something is wrong, for which the program has words.
std::optional<int64_t> quick_value(const Dim& dim, const Bindings& bindings);

std::optional<int64_t> quick_value(const Atom& atom, const Bindings& bindings) {
  if (atom.kind == AtomKind::Symbol) {
    const auto value = bindings.find(atom.symbol->name);
    if (!value || !atom.symbol->check(*value)) return std::nullopt;
    return *value / atom.symbol->range.divisor;
  }
  std::optional<int64_t> result = quick_value(atom.arguments.front(), bindings);
  for (size_t i = 1; i < atom.arguments.size() && result; ++i) {
    const auto argument = quick_value(atom.arguments[i], bindings);
    if (!argument) return std::nullopt;
    if (atom.kind == AtomKind::Min) {
      result = std::min(*result, *argument);
    } else if (*argument == 0 || (*argument == -1 && *result == Dim::kMinusInfinity)) {
      return std::nullopt;  // by zero, or too large
    } else {
      result = floor_quotient(*result, *argument);
    }
  }
  return result;
}

std::optional<int64_t> quick_value(const Dim& dim, const Bindings& bindings) {
  if (dim.is_overflow()) return std::nullopt;
  if (const auto constant = dim.constant()) return constant;
  int64_t sum = 0;
  for (const Term& term : dim.polynomial()->terms) {
    int64_t product = term.coefficient;
    for (const auto& [atom, power] : term.factors) {
      const auto factor = quick_value(*atom, bindings);
      if (!factor) return std::nullopt;
      for (int i = 0; i < power; ++i) {
        if (__builtin_mul_overflow(product, *factor, &product)) return std::nullopt;
      }
    }
    if (__builtin_add_overflow(sum, product, &sum)) return std::nullopt;
  }
  return sum;
}

}  // namespace

Expected<int64_t> Dim::evaluate(const Bindings& bindings) const {
  if (const auto value = quick_value(*this, bindings)) return *value;
  std::vector<std::shared_ptr<const SymbolInfo>> symbols;
  collect_symbols(symbols);
  std::vector<std::string> names;
  std::vector<int64_t> values;
  for (const auto& symbol : symbols) {
    const auto value = bindings.find(symbol->name);
    if (!value) continue;  // compile() reports it
    OPWELD_CHECK(symbol->check(*value));
    names.push_back(symbol->name);
    values.push_back(*value);
  }
  OPWELD_TRY(const CompiledDim compiled, CompiledDim::compile(*this, names));
  return compiled.evaluate(values);
}

}  // namespace opweld
