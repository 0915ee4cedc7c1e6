#include "codegen/cpu/emit_expr.h"

#include <algorithm>
#include <cassert>

#include "codegen/cpu/integer_operations.h"
#include "codegen/cpu/operations.h"
#include "support/compiled_dim.h"

namespace opweld::cpu {

Scoped ExprEmitter::scoped(Expr expr) {
  const ExprNode node = emission_.pool[expr];
  // Locals and loop variables change under the same expression, from one copy of a block to the
  // next.
  if (node.kind == ExprKind::Input) return emission_.locals[static_cast<std::size_t>(node.index)];
  if (node.kind == ExprKind::Loop && !varies(expr)) {
    return emission_.loops[static_cast<std::size_t>(node.index)];
  }
  if (const auto known = emission_.scopes.find(ScopeStack::Part::Whole, expr)) return *known;
  const Scoped result = node.num_arguments == 0 ? leaf(node) : compound(node, &ExprEmitter::scoped);
  emission_.scopes.remember(ScopeStack::Part::Whole, expr, result);
  return result;
}

Scoped ExprEmitter::scoped_lane0(Expr expr) {
  if (!varies(expr)) return scoped(expr);
  const ExprNode node = emission_.pool[expr];
  if (node.kind == ExprKind::Loop) return emission_.loops[static_cast<std::size_t>(node.index)];
  assert(node.num_arguments > 0 && "a local has no lane stride");
  if (const auto known = emission_.scopes.find(ScopeStack::Part::Lane0, expr)) return *known;
  const Scoped result = compound(node, &ExprEmitter::scoped_lane0);
  emission_.scopes.remember(ScopeStack::Part::Lane0, expr, result);
  return result;
}

Scoped ExprEmitter::leaf(const ExprNode& node) {
  if (node.kind == ExprKind::Constant) return {constant(node), 0};
  if (node.kind == ExprKind::Size) {
    return emission_.scopes.emit(0, [&] { return size(node.size); });
  }
  // The variable of the vector loop, in all lanes.
  const Scoped first = emission_.loops[static_cast<std::size_t>(node.index)];
  return emission_.scopes.emit(emission_.scopes.placement(first.depth), [&] {
    return emission_.builder.CreateAdd(emission_.splat(first.value), emission_.lane_numbers());
  });
}

Scoped ExprEmitter::compound(const ExprNode& node, Scoped (ExprEmitter::*argument)(Expr)) {
  const auto count = static_cast<std::size_t>(static_cast<unsigned char>(node.num_arguments));
  std::array<llvm::Value*, 3> arguments{};
  int depth = 0;
  bool vector = false;
  bool nonnegative = true;
  for (std::size_t i = 0; i < count; ++i) {
    const Scoped each = (this->*argument)(node.arguments[i]);
    arguments[i] = each.value;
    depth = std::max(depth, each.depth);
    vector = vector || Emission::is_vector(each.value);
    nonnegative = nonnegative && emission_.index_facts.is_nonnegative(node.arguments[i]);
  }
  const OperationFacts facts{emission_.pool[node.arguments[0]].type, nonnegative};
  return emission_.scopes.emit(emission_.scopes.placement(depth), [&] {
    if (vector) {
      for (std::size_t i = 0; i < count; ++i) arguments[i] = emission_.splat(arguments[i]);
    }
    return emit_operation(emission_.builder, node, std::span(arguments).first(count), facts);
  });
}

llvm::Constant* ExprEmitter::constant(const ExprNode& node) const {
  llvm::Type* const type = emission_.scalar_type(node.type);
  if (is_float(node.type)) return llvm::ConstantFP::get(type, node.number);
  const std::int64_t value =
      node.type == DType::Bool ? static_cast<std::int64_t>(node.number != 0) : node.integer;
  return llvm::ConstantInt::get(type, static_cast<std::uint64_t>(value), true);
}

llvm::Value* ExprEmitter::size(const Dim& dim) {
  std::vector<std::string> names;
  names.reserve(emission_.program.symbols.size());
  for (const Dim& symbol : emission_.program.symbols) names.push_back(symbol.as_symbol()->name);
  const auto compiled = CompiledDim::compile(dim, names);
  assert(compiled && "every symbol of a program is in its list");
  auto& builder = emission_.builder;
  std::vector<llvm::Value*> stack;
  for (const CompiledDim::Instruction& instruction : compiled->instructions()) {
    using Opcode = CompiledDim::Opcode;
    if (instruction.opcode == Opcode::Constant) {
      stack.push_back(builder.getInt64(static_cast<std::uint64_t>(instruction.operand)));
      continue;
    }
    if (instruction.opcode == Opcode::Symbol) {
      llvm::Value* const symbol = emission_.symbols[instruction.symbol];
      llvm::Value* const divisor =
          builder.getInt64(static_cast<std::uint64_t>(instruction.operand));
      stack.push_back(instruction.operand == 1 ? symbol : builder.CreateExactSDiv(symbol, divisor));
      continue;
    }
    llvm::Value* const right = stack.back();
    stack.pop_back();
    llvm::Value*& left = stack.back();
    switch (instruction.opcode) {
      case Opcode::Add:
        left = builder.CreateAdd(left, right);
        break;
      case Opcode::Multiply:
        left = builder.CreateMul(left, right);
        break;
      case Opcode::FloorDiv:
        left = emit_floor_div(builder, left, right);
        break;
      default:
        assert(instruction.opcode == Opcode::Min);
        left = builder.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, right);
        break;
    }
  }
  return stack.back();
}

}  // namespace opweld::cpu
