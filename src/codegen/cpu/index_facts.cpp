#include "codegen/cpu/index_facts.h"

#include <cstdlib>
#include <numeric>

namespace opweld::cpu {

bool IndexFacts::is_nonnegative(Expr expr) {
  if (const auto known = nonnegative_.find(expr); known != nonnegative_.end()) {
    return known->second;
  }
  const bool result = compute_nonnegative(ExprNode(pool_[expr]));
  nonnegative_.emplace(expr, result);
  return result;
}

bool IndexFacts::compute_nonnegative(const ExprNode& node) {
  const auto argument = [&](int i) { return is_nonnegative(node.arguments[i]); };
  switch (node.kind) {
    case ExprKind::Constant:
      return node.integer >= 0;
    case ExprKind::Size:
      return node.size.lower_bound() >= 0;
    case ExprKind::Loop:
      return true;
    // Offsets stay far from where they would wrap.
    case ExprKind::Add:
    case ExprKind::Mul:
    case ExprKind::Div:
    case ExprKind::Min:
      return node.type == DType::I64 && argument(0) && argument(1);
    case ExprKind::Mod:
      return argument(1);
    case ExprKind::Max:
      return argument(0) || argument(1);
    case ExprKind::Select:
      return argument(1) && argument(2);
    default:
      return false;
  }
}

std::int64_t IndexFacts::known_divisor(Expr expr) {
  return compute_divisor(ExprNode(pool_[expr]));
}

std::int64_t IndexFacts::compute_divisor(const ExprNode& node) {
  const auto argument = [&](int i) { return known_divisor(node.arguments[i]); };
  switch (node.kind) {
    case ExprKind::Constant:
      return std::abs(node.integer);
    case ExprKind::Size:
      return node.size.known_divisor();
    case ExprKind::Loop:
      return loop_multiples_[static_cast<std::size_t>(node.index)];
    case ExprKind::Add:
    case ExprKind::Sub:
    case ExprKind::Min:
    case ExprKind::Max:
      return std::gcd(argument(0), argument(1));
    case ExprKind::Mul: {
      std::int64_t product = 0;
      const bool fits = !__builtin_mul_overflow(argument(0), argument(1), &product);
      return fits ? product : 1;
    }
    default:
      return 1;
  }
}

bool LaneFacts::varies(Expr expr) {
  if (const auto known = varies_.find(expr); known != varies_.end()) return known->second;
  const ExprNode node = pool_[expr];
  bool result = false;
  if (node.kind == ExprKind::Loop) result = node.index == loop_;
  if (node.kind == ExprKind::Input) result = variance_.local_varies(node.index);
  for (int i = 0; i < node.num_arguments; ++i) result = varies(node.arguments[i]) || result;
  varies_.emplace(expr, result);
  return result;
}

std::optional<Expr> LaneFacts::stride(Expr expr) {
  if (const auto known = strides_.find(expr); known != strides_.end()) return known->second;
  const auto result = compute_stride(expr);
  strides_.emplace(expr, result);
  return result;
}

std::optional<std::int64_t> LaneFacts::number(Expr expr) const {
  const ExprNode& node = pool_[expr];
  if (node.kind != ExprKind::Constant) return std::nullopt;
  return node.integer;
}

std::optional<Expr> LaneFacts::compute_stride(Expr expr) {
  const ExprNode node = pool_[expr];
  if (!varies(expr)) return pool_.integer(0);
  if (node.type != DType::I64) return std::nullopt;
  if (node.kind == ExprKind::Loop) return pool_.integer(1);
  if (node.kind == ExprKind::Div || node.kind == ExprKind::Mod) return stride_of_division(node);
  if (node.kind != ExprKind::Add && node.kind != ExprKind::Sub && node.kind != ExprKind::Mul) {
    return std::nullopt;
  }
  const auto a = stride(node.arguments[0]);
  const auto b = stride(node.arguments[1]);
  if (!a || !b) return std::nullopt;
  if (node.kind != ExprKind::Mul) {
    if (number(*b) == 0) return a;
    if (number(*a) == 0 && node.kind == ExprKind::Add) return b;
    return pool_.binary(node.kind, *a, *b);
  }
  for (const int invariant : {0, 1}) {
    if (varies(node.arguments[invariant])) continue;
    const Expr factor = node.arguments[invariant];
    const Expr step = invariant == 0 ? *b : *a;
    if (number(step) == 0) return step;
    return number(step) == 1 ? factor : pool_.binary(ExprKind::Mul, step, factor);
  }
  return std::nullopt;
}

// Lanes that start at a multiple of all they cover, divided by such a multiple, fall into one
// quotient: (8*i + lane) / 64, and the rest goes on from lane to lane.
std::optional<Expr> LaneFacts::stride_of_division(const ExprNode& node) {
  const auto step = stride(node.arguments[0]);
  if (!step || varies(node.arguments[1])) return std::nullopt;
  const auto distance = number(*step);
  if (!distance || *distance <= 0) return std::nullopt;
  const std::int64_t covered = *distance * lanes_;
  if (number(node.arguments[1]) == 0 || index_.known_divisor(node.arguments[0]) % covered != 0 ||
      index_.known_divisor(node.arguments[1]) % covered != 0 ||
      !index_.is_nonnegative(node.arguments[0]) || !index_.is_nonnegative(node.arguments[1])) {
    return std::nullopt;
  }
  return node.kind == ExprKind::Div ? pool_.integer(0) : *step;
}

}  // namespace opweld::cpu
