#include <fmt/format.h>

#include "graph/number_text.h"
#include "ops/scalar_expr.h"

namespace opweld {

std::string_view to_string(ExprKind kind) {
  switch (kind) {
    case ExprKind::Input:
      return "in";
    case ExprKind::Constant:
      return "constant";
    case ExprKind::Size:
      return "size";
    case ExprKind::Loop:
      return "loop";
    case ExprKind::Add:
      return "add";
    case ExprKind::Sub:
      return "sub";
    case ExprKind::Mul:
      return "mul";
    case ExprKind::Div:
      return "div";
    case ExprKind::Mod:
      return "mod";
    case ExprKind::Fmod:
      return "fmod";
    case ExprKind::Min:
      return "min";
    case ExprKind::Max:
      return "max";
    case ExprKind::Pow:
      return "pow";
    case ExprKind::Fma:
      return "fma";
    case ExprKind::Neg:
      return "neg";
    case ExprKind::Abs:
      return "abs";
    case ExprKind::Sign:
      return "sign";
    case ExprKind::Exp:
      return "exp";
    case ExprKind::Log:
      return "log";
    case ExprKind::Sqrt:
      return "sqrt";
    case ExprKind::Rsqrt:
      return "rsqrt";
    case ExprKind::Tanh:
      return "tanh";
    case ExprKind::Erf:
      return "erf";
    case ExprKind::Sigmoid:
      return "sigmoid";
    case ExprKind::Sin:
      return "sin";
    case ExprKind::Cos:
      return "cos";
    case ExprKind::Floor:
      return "floor";
    case ExprKind::Ceil:
      return "ceil";
    case ExprKind::Round:
      return "round";
    case ExprKind::Reciprocal:
      return "reciprocal";
    case ExprKind::Eq:
      return "eq";
    case ExprKind::Ne:
      return "ne";
    case ExprKind::Lt:
      return "lt";
    case ExprKind::Le:
      return "le";
    case ExprKind::And:
      return "and";
    case ExprKind::Or:
      return "or";
    case ExprKind::Xor:
      return "xor";
    case ExprKind::Not:
      return "not";
    case ExprKind::ShiftLeft:
      return "shift_left";
    case ExprKind::ShiftRight:
      return "shift_right";
    case ExprKind::IsNan:
      return "is_nan";
    case ExprKind::IsInf:
      return "is_inf";
    case ExprKind::Select:
      return "select";
    case ExprKind::Convert:
      return "convert";
    case ExprKind::Store:
      return "store";
  }
  return "?";
}

namespace {

std::string constant_text(const ExprNode& node) {
  if (node.type == DType::Bool) return node.number != 0 ? "true" : "false";
  if (is_float(node.type)) return real_text(node.number, node.type);
  return fmt::format("{}", node.integer);
}

// The function's name, with the type it leads to where that is not the argument's.
std::string function_text(const ExprNode& node) {
  const std::string_view name = to_string(node.kind);
  if (node.kind == ExprKind::Convert) return fmt::format("{}_{}", name, to_string(node.type));
  if (node.kind == ExprKind::Store) return fmt::format("{}_{}", name, to_string(node.storage));
  return std::string(name);
}

std::string leaf_text(const ExprNode& node) {
  switch (node.kind) {
    case ExprKind::Constant:
      return constant_text(node);
    case ExprKind::Size:
      return fmt::format("size({})", node.size);
    default:
      return fmt::format("{}{}", to_string(node.kind), node.index);
  }
}

}  // namespace

std::string to_string(const ExprPool& pool, Expr expr) {
  const std::vector<Expr> order = reachable_exprs(pool, expr);
  std::vector<int> readers(static_cast<std::size_t>(expr) + 1, 0);
  for (const Expr each : order) {
    const ExprNode& node = pool[each];
    for (int i = 0; i < node.num_arguments; ++i) {
      ++readers[static_cast<std::size_t>(node.arguments[i])];
    }
  }
  // What is read twice gets a name, so that the text is no longer than the DAG is large.
  std::string definitions;
  int names = 0;
  std::vector<std::string> texts(readers.size());
  for (const Expr each : order) {
    const ExprNode& node = pool[each];
    const auto position = static_cast<std::size_t>(each);
    std::string& text = texts[position];
    if (node.num_arguments == 0) {
      text = leaf_text(node);
      continue;
    }
    text = function_text(node) + "(";
    for (int i = 0; i < node.num_arguments; ++i) {
      if (i > 0) text += ", ";
      text += texts[static_cast<std::size_t>(node.arguments[i])];
    }
    text += ")";
    if (readers[position] > 1) {
      definitions += fmt::format("t{} = {}; ", names, text);
      text = fmt::format("t{}", names++);
    }
  }
  return definitions + texts.back();
}

}  // namespace opweld
