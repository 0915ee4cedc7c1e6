#include "ops/scalar_expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <functional>

#include "graph/convert.h"
#include "ops/scalar_semantics.h"

namespace opweld {
namespace {

std::size_t combine(std::size_t seed, std::size_t value) {
  return seed ^ (value + 0x9e3779b97f4a7c15ULL + (seed << 12) + (seed >> 4));
}

std::size_t hash_of(const ExprNode& node) {
  std::size_t hash = static_cast<std::size_t>(node.kind);
  hash = combine(hash, static_cast<std::size_t>(node.type));
  hash = combine(hash, static_cast<std::size_t>(node.index));
  hash = combine(hash, static_cast<std::size_t>(node.storage));
  hash = combine(hash, std::bit_cast<std::uint64_t>(node.number));
  hash = combine(hash, static_cast<std::size_t>(node.integer));
  hash = combine(hash, node.size.hash());
  for (const Expr argument : node.arguments) {
    hash = combine(hash, static_cast<std::size_t>(argument));
  }
  return hash;
}

bool is_compute_type(DType type) {
  return compute_dtype(type) == type;
}

DType result_type(ExprKind kind, DType argument_type) {
  switch (kind) {
    case ExprKind::Eq:
    case ExprKind::Ne:
    case ExprKind::Lt:
    case ExprKind::Le:
    case ExprKind::IsNan:
    case ExprKind::IsInf:
      return DType::Bool;
    default:
      return argument_type;
  }
}

// Float operations that IEEE 754 rounds correctly: run-time code gives the same bits.
bool is_correctly_rounded(ExprKind kind) {
  switch (kind) {
    case ExprKind::Add:
    case ExprKind::Sub:
    case ExprKind::Mul:
    case ExprKind::Div:
    case ExprKind::Neg:
    case ExprKind::Abs:
    case ExprKind::Sqrt:
    case ExprKind::Floor:
    case ExprKind::Ceil:
    case ExprKind::Round:
    case ExprKind::Eq:
    case ExprKind::Ne:
    case ExprKind::Lt:
    case ExprKind::Le:
    case ExprKind::IsNan:
    case ExprKind::IsInf:
    case ExprKind::Convert:
    case ExprKind::Store:
      return true;
    default:
      return false;
  }
}

// A NaN's sign and payload are the processor's choice, so NaN is left to run time.
bool is_nan(DType type, ScalarValue value) {
  return is_float(type) && std::isnan(value.real);
}

}  // namespace

bool admits(ExprKind kind, DType type) {
  const bool real = is_float(type);
  const bool integer = is_integer(type);
  switch (kind) {
    case ExprKind::Exp:
    case ExprKind::Log:
    case ExprKind::Sqrt:
    case ExprKind::Rsqrt:
    case ExprKind::Tanh:
    case ExprKind::Erf:
    case ExprKind::Sigmoid:
    case ExprKind::Sin:
    case ExprKind::Cos:
    case ExprKind::Floor:
    case ExprKind::Ceil:
    case ExprKind::Round:
    case ExprKind::Reciprocal:
    case ExprKind::Fma:
    case ExprKind::IsNan:
    case ExprKind::IsInf:
      return real;
    case ExprKind::And:
    case ExprKind::Or:
    case ExprKind::Xor:
    case ExprKind::Not:
      return !real;
    case ExprKind::ShiftLeft:
    case ExprKind::ShiftRight:
      return integer;
    case ExprKind::Eq:
    case ExprKind::Ne:
    case ExprKind::Lt:
    case ExprKind::Le:
    case ExprKind::Select:
      return true;
    default:
      return real || integer;
  }
}

int arity(ExprKind kind) {
  switch (kind) {
    case ExprKind::Input:
    case ExprKind::Constant:
    case ExprKind::Size:
    case ExprKind::Loop:
      return 0;
    case ExprKind::Fma:
    case ExprKind::Select:
      return 3;
    case ExprKind::Add:
    case ExprKind::Sub:
    case ExprKind::Mul:
    case ExprKind::Div:
    case ExprKind::Mod:
    case ExprKind::Fmod:
    case ExprKind::Min:
    case ExprKind::Max:
    case ExprKind::Pow:
    case ExprKind::Eq:
    case ExprKind::Ne:
    case ExprKind::Lt:
    case ExprKind::Le:
    case ExprKind::And:
    case ExprKind::Or:
    case ExprKind::Xor:
    case ExprKind::ShiftLeft:
    case ExprKind::ShiftRight:
      return 2;
    default:
      return 1;
  }
}

bool operator==(const ExprNode& a, const ExprNode& b) {
  return a.kind == b.kind && a.type == b.type && a.index == b.index && a.storage == b.storage &&
         std::bit_cast<std::uint64_t>(a.number) == std::bit_cast<std::uint64_t>(b.number) &&
         a.integer == b.integer && a.size == b.size && a.num_arguments == b.num_arguments &&
         a.arguments[0] == b.arguments[0] && a.arguments[1] == b.arguments[1] &&
         a.arguments[2] == b.arguments[2];
}

Expr ExprPool::intern(ExprNode node) {
  constexpr std::size_t kUsual = 64;  // programs have a hundred or more
  if (nodes_.empty()) nodes_.reserve(kUsual);
  const auto next = static_cast<std::int32_t>(nodes_.size());
  const std::int32_t place = index_.find_or_add(hash_of(node), next, [&](std::int32_t at) {
    return nodes_[static_cast<std::size_t>(at)] == node;
  });
  if (place == next) nodes_.push_back(std::move(node));
  return static_cast<Expr>(place);
}

Expr ExprPool::input(int index, DType compute_type) {
  assert(is_compute_type(compute_type));
  ExprNode node{ExprKind::Input, compute_type};
  node.index = index;
  return intern(std::move(node));
}

Expr ExprPool::constant(double value, DType compute_type) {
  assert(is_compute_type(compute_type));
  if (is_integer(compute_type)) return integer(float_to_integer(value, compute_type), compute_type);
  ExprNode node{ExprKind::Constant, compute_type};
  node.number = compute_type == DType::Bool ? static_cast<double>(value != 0)
                                            : round_to_float(value, compute_type);
  return intern(std::move(node));
}

Expr ExprPool::integer(std::int64_t value, DType compute_type) {
  assert(is_compute_type(compute_type));
  if (!is_integer(compute_type)) return constant(static_cast<double>(value), compute_type);
  ExprNode node{ExprKind::Constant, compute_type};
  node.integer = wrap_integer(value, compute_type);
  return intern(std::move(node));
}

Expr ExprPool::size_of(const Dim& dim) {
  assert(!dim.is_overflow());
  if (const auto value = dim.constant()) return integer(*value);
  ExprNode node{ExprKind::Size, DType::I64};
  node.size = dim;
  return intern(std::move(node));
}

Expr ExprPool::loop(int index) {
  ExprNode node{ExprKind::Loop, DType::I64};
  node.index = index;
  return intern(std::move(node));
}

// The value of `node` (whose arguments are set) when all arguments are constants and evaluating now
// is certain to give the bits that evaluating at run time gives.
std::optional<ScalarValue> ExprPool::fold(const ExprNode& node) const {
  ScalarValue arguments[3];
  bool floats = is_float(node.type);
  for (int i = 0; i < node.num_arguments; ++i) {
    const ExprNode& argument = (*this)[node.arguments[i]];
    if (argument.kind != ExprKind::Constant) return std::nullopt;
    arguments[i] = value_of_constant(argument);
    floats = floats || is_float(argument.type);
    if (is_nan(argument.type, arguments[i])) return std::nullopt;
  }
  if (floats && !is_correctly_rounded(node.kind)) return std::nullopt;
  const DType argument_type = (*this)[node.arguments[0]].type;
  const ScalarValue value = apply_scalar(node, argument_type, arguments);
  if (is_nan(node.type, value)) return std::nullopt;
  return value;
}

Expr ExprPool::fold_or_intern(ExprNode node) {
  if (const auto value = fold(node)) {
    return is_float(node.type) ? constant(value->real, node.type)
                               : integer(value->integer, node.type);
  }
  return intern(std::move(node));
}

Expr ExprPool::make(ExprKind kind, std::span<const Expr> arguments) {
  assert(kind != ExprKind::Convert && kind != ExprKind::Store && "use convert() or store()");
  assert(static_cast<int>(arguments.size()) == arity(kind) && !arguments.empty());
  if (kind == ExprKind::Select) return select(arguments[0], arguments[1], arguments[2]);
  const DType type = (*this)[arguments[0]].type;
  assert(admits(kind, type));
  ExprNode node{kind, result_type(kind, type)};
  node.num_arguments = static_cast<std::int8_t>(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    assert((*this)[arguments[i]].type == type && "arguments must share one type");
    node.arguments[i] = arguments[i];
  }
  return fold_or_intern(std::move(node));
}

Expr ExprPool::unary(ExprKind kind, Expr a) {
  return make(kind, {&a, 1});
}

Expr ExprPool::binary(ExprKind kind, Expr a, Expr b) {
  const Expr arguments[] = {a, b};
  return make(kind, arguments);
}

Expr ExprPool::select(Expr condition, Expr a, Expr b) {
  assert((*this)[condition].type == DType::Bool);
  assert((*this)[a].type == (*this)[b].type);
  if (a == b) return a;
  const ExprNode& chooser = (*this)[condition];
  if (chooser.kind == ExprKind::Constant) return chooser.number != 0 ? a : b;
  ExprNode node{ExprKind::Select, (*this)[a].type};
  node.num_arguments = 3;
  node.arguments[0] = condition;
  node.arguments[1] = a;
  node.arguments[2] = b;
  return intern(std::move(node));
}

Expr ExprPool::convert(Expr a, DType compute_type) {
  assert(is_compute_type(compute_type));
  if ((*this)[a].type == compute_type) return a;
  ExprNode node{ExprKind::Convert, compute_type};
  node.num_arguments = 1;
  node.arguments[0] = a;
  return fold_or_intern(std::move(node));
}

Expr ExprPool::store(Expr a, DType storage) {
  const DType type = (*this)[a].type;
  assert(compute_dtype(storage) == type && "a value is stored in a type that widens to its own");
  if (storage == type) return a;
  const ExprNode& value = (*this)[a];
  if (value.kind == ExprKind::Store && value.storage == storage) return a;  // rounded already
  ExprNode node{ExprKind::Store, type};
  node.storage = storage;
  node.num_arguments = 1;
  node.arguments[0] = a;
  return fold_or_intern(std::move(node));
}

Expr ExprPool::import(const ExprPool& other, Expr root, std::span<const Expr> replacements) {
  // Arguments precede their users in a pool, so one pass in order of index meets them first.
  std::vector<Expr> copies(static_cast<std::size_t>(root) + 1, kNoExpr);
  for (const Expr expr : reachable_exprs(other, root)) {
    ExprNode node = other[expr];
    Expr copy = kNoExpr;
    if (node.kind == ExprKind::Input) {
      copy = replacements[static_cast<std::size_t>(node.index)];
      assert((*this)[copy].type == node.type && "a replacement must have the input's type");
    } else {
      Expr arguments[3] = {kNoExpr, kNoExpr, kNoExpr};
      for (int i = 0; i < node.num_arguments; ++i) {
        arguments[i] = copies[static_cast<std::size_t>(node.arguments[i])];
      }
      copy = rebuild(std::move(node), arguments);
    }
    copies[static_cast<std::size_t>(expr)] = copy;
  }
  return copies.back();
}

Expr ExprPool::rebuild(ExprNode node, const Expr (&arguments)[3]) {
  switch (node.kind) {
    case ExprKind::Convert:
      return convert(arguments[0], node.type);
    case ExprKind::Store:
      return store(arguments[0], node.storage);
    default:
      if (node.num_arguments == 0) return intern(std::move(node));
      return make(node.kind, {arguments, static_cast<std::size_t>(node.num_arguments)});
  }
}

std::vector<Expr> reachable_exprs(const ExprPool& pool, Expr root) {
  if (pool[root].num_arguments == 0) return {root};
  // Arguments have smaller indices, so the largest one that is needed is needed by none that is yet
  // to come. Pools are larger than most expressions in them: a word is passed over at once.
  constexpr std::size_t kBits = 64;
  const auto last = static_cast<std::size_t>(root);
  std::vector<std::uint64_t> needed(last / kBits + 1);
  const auto need = [&needed](Expr expr) {
    const auto index = static_cast<std::size_t>(expr);
    needed[index / kBits] |= std::uint64_t{1} << (index % kBits);
  };
  need(root);
  std::vector<Expr> order;
  for (std::size_t word = needed.size(); word-- > 0;) {
    for (std::uint64_t left = needed[word]; left != 0;) {
      const auto bit = kBits - 1 - static_cast<std::size_t>(std::countl_zero(left));
      const auto next = static_cast<Expr>(word * kBits + bit);
      order.push_back(next);
      const ExprNode& node = pool[next];
      for (int i = 0; i < node.num_arguments; ++i) need(node.arguments[i]);
      left = needed[word] & ((std::uint64_t{1} << bit) - 1);
    }
  }
  std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace opweld
