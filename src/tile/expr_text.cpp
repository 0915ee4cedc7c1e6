#include "tile/expr_text.h"

#include <algorithm>
#include <map>

#include "graph/number_text.h"

namespace opweld::tile {
namespace {

// How tightly an infix operator binds; 0 for what is written as a function or a leaf.
struct Infix {
  const char* symbol = nullptr;
  int precedence = 0;
};

Infix infix(ExprKind kind) {
  switch (kind) {
    case ExprKind::Mul:
      return {"*", 3};
    case ExprKind::Div:
      return {"/", 3};
    case ExprKind::Mod:
      return {"%", 3};
    case ExprKind::Add:
      return {"+", 2};
    case ExprKind::Sub:
      return {"-", 2};
    case ExprKind::Eq:
      return {"==", 1};
    case ExprKind::Ne:
      return {"!=", 1};
    case ExprKind::Lt:
      return {"<", 1};
    case ExprKind::Le:
      return {"<=", 1};
    case ExprKind::And:
      return {"&", 1};
    case ExprKind::Or:
      return {"|", 1};
    case ExprKind::Xor:
      return {"^", 1};
    case ExprKind::ShiftLeft:
      return {"<<", 1};
    case ExprKind::ShiftRight:
      return {">>", 1};
    default:
      return {};
  }
}

class Printer {
 public:
  Printer(const TileProgram& program, Expr root, std::string_view indent, std::string& definitions)
      : program_(program), indent_(indent), definitions_(definitions) {
    for (const Expr expr : reachable_exprs(program.exprs, root)) {
      const ExprNode& node = program.exprs[expr];
      for (int i = 0; i < node.num_arguments; ++i) ++readers_[node.arguments[i]];
    }
  }

  // The text, and how tightly its outermost operator binds (a leaf or a call: 4).
  std::pair<std::string, int> print(Expr expr) {
    const ExprNode& node = program_.exprs[expr];
    if (node.num_arguments == 0) return {leaf(node), 4};
    if (const auto known = names_.find(expr); known != names_.end()) return {known->second, 4};
    auto text = compound(node);
    if (readers_[expr] < 2) return text;
    // One line for each name given so far, by earlier expressions of the statement too.
    const auto count = std::count(definitions_.begin(), definitions_.end(), '\n');
    const std::string name = "%" + std::to_string(count);
    definitions_.append(indent_).append("let ").append(name).append(" = ").append(text.first);
    definitions_ += '\n';
    names_.emplace(expr, name);
    return {name, 4};
  }

 private:
  std::pair<std::string, int> compound(const ExprNode& node) {
    const Infix operation = infix(node.kind);
    if (operation.precedence == 0) return {call(node), 4};
    const auto [left, left_binds] = print(node.arguments[0]);
    const auto [right, right_binds] = print(node.arguments[1]);
    const int mine = operation.precedence;
    const bool left_bare = left_binds > mine || (left_binds == mine && mine > 1);
    const bool right_bare = right_binds > mine;
    return {enclose(left, left_bare) + " " + operation.symbol + " " + enclose(right, right_bare),
            mine};
  }

  std::string call(const ExprNode& node) {
    std::string text = function(node) + "(";
    for (int i = 0; i < node.num_arguments; ++i) {
      if (i > 0) text += ", ";
      text += print(node.arguments[i]).first;
    }
    return text + ")";
  }

  static std::string function(const ExprNode& node) {
    if (node.kind == ExprKind::Convert) return std::string(to_string(node.type));
    if (node.kind == ExprKind::Store) return "as_" + std::string(to_string(node.storage));
    return std::string(to_string(node.kind));
  }

  static std::string enclose(const std::string& text, bool bare) {
    return bare ? text : "(" + text + ")";
  }

  std::string leaf(const ExprNode& node) const {
    const auto index = static_cast<std::size_t>(node.index);
    switch (node.kind) {
      case ExprKind::Input:
        return program_.local_names[index];
      case ExprKind::Loop:
        return program_.loop_names[index];
      case ExprKind::Size:
        return "{" + node.size.to_string() + "}";
      default:
        return constant(node);
    }
  }

  // f32 and i64 are what a bare number means.
  static std::string constant(const ExprNode& node) {
    switch (node.type) {
      case DType::Bool:
        return node.number != 0 ? "true" : "false";
      case DType::F32:
        return real_text(node.number, DType::F32);
      case DType::F64:
        return real_text(node.number, DType::F64) + ":f64";
      case DType::I32:
        return std::to_string(node.integer) + ":i32";
      default:
        return std::to_string(node.integer);
    }
  }

  const TileProgram& program_;
  std::string_view indent_;
  std::string& definitions_;
  std::map<Expr, int> readers_;
  std::map<Expr, std::string> names_;
};

}  // namespace

std::string expr_text(const TileProgram& program, Expr expr, std::string_view indent,
                      std::string& definitions) {
  const ExprNode& node = program.exprs[expr];
  if (node.kind == ExprKind::Size) return node.size.to_string();
  return Printer(program, expr, indent, definitions).print(expr).first;
}

}  // namespace opweld::tile
