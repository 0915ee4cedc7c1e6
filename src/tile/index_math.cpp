#include "tile/index_math.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <ranges>

namespace opweld::tile {

namespace {

// The terms of a sum, left to right.
void collect_terms(const ExprPool& pool, Expr a, std::vector<Expr>& terms) {
  const ExprNode& node = pool[a];
  if (node.kind == ExprKind::Add) {
    collect_terms(pool, node.arguments[0], terms);
    collect_terms(pool, node.arguments[1], terms);
  } else {
    terms.push_back(a);
  }
}

// Whether a term of the sum is such an expression, or a multiple of one.
bool has_term_of(const ExprPool& pool, Expr a, ExprKind kind) {
  const ExprNode& node = pool[a];
  if (node.kind == ExprKind::Add) {
    return has_term_of(pool, node.arguments[0], kind) || has_term_of(pool, node.arguments[1], kind);
  }
  return (node.kind == ExprKind::Mul ? pool[node.arguments[0]].kind : node.kind) == kind;
}

}  // namespace

std::optional<Dim> IndexMath::known(Expr a) const {
  const ExprNode& node = pool_[a];
  if (node.kind == ExprKind::Constant) return Dim(node.integer);
  if (node.kind == ExprKind::Size) return node.size;
  return std::nullopt;
}

std::optional<Dim> IndexMath::bound(Expr a) const {
  if (const auto value = known(a)) return *value + 1;
  for (const Bound& bound : bounds_ | std::views::reverse) {
    if (bound.of == a) return bound.extent;
  }
  const ExprNode& node = pool_[a];
  switch (node.kind) {
    case ExprKind::Add: {
      const auto left = bound(node.arguments[0]);
      const auto right = bound(node.arguments[1]);
      if (!left || !right) return std::nullopt;
      return *left + *right - 1;
    }
    case ExprKind::Mul: {
      const auto left = bound(node.arguments[0]);
      const auto factor = known(node.arguments[1]);
      if (!left || !factor || factor->lower_bound() < 0) return std::nullopt;
      return (*left - 1) * *factor + 1;
    }
    case ExprKind::Mod:
      return known(node.arguments[1]);
    case ExprKind::Div: {
      const auto left = bound(node.arguments[0]);
      const auto divisor = known(node.arguments[1]);
      if (!left || !divisor || divisor->lower_bound() < 1) return std::nullopt;
      return floor_div(*left - 1, *divisor) + 1;
    }
    default:
      return std::nullopt;
  }
}

bool IndexMath::below(Expr a, const Dim& limit) const {
  const auto top = bound(a);
  return top && provably_le(*top, limit);
}

Expr IndexMath::size(const Dim& dim) {
  if (const auto value = dim.constant()) return pool_.integer(*value);
  return pool_.size_of(dim);
}

Expr IndexMath::add(Expr a, Expr b) {
  const auto left = known(a);
  const auto right = known(b);
  if (left && right) return size(*left + *right);
  if (left && *left == Dim(0)) return b;
  if (right && *right == Dim(0)) return a;
  // (x + c) + d -> x + (c + d), so that a number that was added and taken away again is seen to be.
  if (const ExprNode node = pool_[a]; right && node.kind == ExprKind::Add) {
    const auto inner = known(node.arguments[1]);
    if (inner && inner->is_constant() && right->is_constant()) {
      return add(node.arguments[0], size(*inner + *right));
    }
  }
  if (const auto joined = join_split(a, b)) return *joined;
  return pool_.binary(ExprKind::Add, a, b);
}

// (x / d) * (d * c) + (x mod d) * c -> x * c: what a reshape took apart and a layout puts together.
std::optional<Expr> IndexMath::join_split(Expr a, Expr b) {
  const bool may_join =
      (has_term_of(pool_, a, ExprKind::Div) && has_term_of(pool_, b, ExprKind::Mod)) ||
      (has_term_of(pool_, a, ExprKind::Mod) && has_term_of(pool_, b, ExprKind::Div));
  if (!may_join) return std::nullopt;
  std::vector<Expr> left;
  std::vector<Expr> right;
  collect_terms(pool_, a, left);
  collect_terms(pool_, b, right);
  for (Expr& one : left) {
    for (auto other = right.begin(); other != right.end(); ++other) {
      auto whole = joined(one, *other);
      if (!whole) whole = joined(*other, one);
      if (!whole) continue;
      one = *whole;
      right.erase(other);
      left.insert(left.end(), right.begin(), right.end());
      return std::accumulate(left.begin() + 1, left.end(), left.front(),
                             [this](Expr sum, Expr next) { return add(sum, next); });
    }
  }
  return std::nullopt;
}

std::optional<Expr> IndexMath::joined(Expr quotient, Expr remainder) {
  const Term high = term(quotient);
  const Term low = term(remainder);
  const ExprNode div = pool_[high.base];
  const ExprNode mod = pool_[low.base];
  if (div.kind != ExprKind::Div || mod.kind != ExprKind::Mod) return std::nullopt;
  if (div.arguments[0] != mod.arguments[0] || div.arguments[1] != mod.arguments[1]) {
    return std::nullopt;
  }
  const auto divisor = known(div.arguments[1]);
  if (!divisor || !(high.factor == low.factor * *divisor)) return std::nullopt;
  return mul(div.arguments[0], low.factor);
}

IndexMath::Term IndexMath::term(Expr a) const {
  const ExprNode& node = pool_[a];
  if (node.kind == ExprKind::Mul) {
    if (const auto factor = known(node.arguments[1])) return {node.arguments[0], *factor};
  }
  return {a, 1};
}

Expr IndexMath::sub(Expr a, Expr b) {
  if (a == b) return constant(0);
  const auto left = known(a);
  const auto right = known(b);
  if (left && right) return size(*left - *right);
  if (right && *right == Dim(0)) return a;
  if (right) {
    if (const auto rest = past(a, *right)) return *rest;
  }
  return pool_.binary(ExprKind::Sub, a, b);
}

std::optional<Expr> IndexMath::past(Expr a, const Dim& start) {
  if (start == Dim(0)) return a;
  std::vector<Expr> terms;
  collect_terms(pool_, a, terms);
  const auto number =
      std::find_if(terms.begin(), terms.end(), [&](Expr term) { return known(term).has_value(); });
  if (number == terms.end() || !provably_le(start, *known(*number))) return std::nullopt;
  *number = size(*known(*number) - start);
  return std::accumulate(terms.begin() + 1, terms.end(), terms.front(),
                         [this](Expr sum, Expr next) { return add(sum, next); });
}

Expr IndexMath::mul(Expr a, const Dim& factor) {
  if (const auto value = known(a)) return size(*value * factor);
  if (factor == Dim(1)) return a;
  if (factor == Dim(0)) return constant(0);
  const ExprNode node = pool_[a];
  // (x * c) * d -> x * (c * d): one factor, so that strides of nested views stay readable.
  if (node.kind == ExprKind::Mul) {
    if (const auto inner = known(node.arguments[1])) {
      return mul(node.arguments[0], *inner * factor);
    }
  }
  if (node.kind == ExprKind::Add) {
    return add(mul(node.arguments[0], factor), mul(node.arguments[1], factor));
  }
  return pool_.binary(ExprKind::Mul, a, size(factor));
}

std::optional<Expr> IndexMath::exact_quotient(Expr a, const Dim& divisor) {
  if (const auto value = known(a)) {
    if (opweld::mod(*value, divisor) == Dim(0)) return size(floor_div(*value, divisor));
    return std::nullopt;
  }
  const ExprNode node = pool_[a];
  if (node.kind == ExprKind::Mul) {
    const auto factor = known(node.arguments[1]);
    if (factor && opweld::mod(*factor, divisor) == Dim(0)) {
      return mul(node.arguments[0], floor_div(*factor, divisor));
    }
  }
  if (node.kind == ExprKind::Add) {
    const auto left = exact_quotient(node.arguments[0], divisor);
    const auto right = exact_quotient(node.arguments[1], divisor);
    if (left && right) return add(*left, *right);
  }
  return std::nullopt;
}

// (q * d + r) / d == q when 0 <= r < d; otherwise only the exact multiples leave the division:
// floor((q * d + r) / d) == q + floor(r / d) for r >= 0.
Expr IndexMath::div(Expr a, const Dim& divisor) {
  if (divisor == Dim(0)) return constant(0);  // an empty tensor: nothing will be read
  if (divisor == Dim(1)) return a;
  if (const auto value = known(a)) return size(floor_div(*value, divisor));
  std::vector<Expr> terms;
  collect_terms(pool_, a, terms);
  Expr quotient = constant(0);
  Expr rest = constant(0);
  for (const Expr term : terms) {
    if (const auto exact = exact_quotient(term, divisor)) {
      quotient = add(quotient, *exact);
    } else {
      rest = add(rest, term);
    }
  }
  if (below(rest, divisor)) return quotient;
  // (x / c) / d -> x / (c * d)
  const ExprNode node = pool_[rest];
  if (node.kind == ExprKind::Div) {
    if (const auto inner = known(node.arguments[1])) {
      return add(quotient, div(node.arguments[0], *inner * divisor));
    }
  }
  return add(quotient, pool_.binary(ExprKind::Div, rest, size(divisor)));
}

Expr IndexMath::mod(Expr a, const Dim& divisor) {
  if (divisor == Dim(1) || divisor == Dim(0)) return constant(0);
  if (const auto value = known(a)) return size(opweld::mod(*value, divisor));
  std::vector<Expr> terms;
  collect_terms(pool_, a, terms);
  Expr rest = constant(0);
  for (const Expr term : terms) {
    if (!exact_quotient(term, divisor)) rest = add(rest, term);
  }
  if (below(rest, divisor)) return rest;
  return pool_.binary(ExprKind::Mod, rest, size(divisor));
}

Expr IndexMath::clamp(Expr a, const Dim& extent) {
  if (below(a, extent)) return a;
  const Expr last = size(max(extent - 1, Dim(0)));
  return pool_.binary(ExprKind::Min, pool_.binary(ExprKind::Max, a, constant(0)), last);
}

Expr IndexMath::linearize(std::span<const Expr> index, const Shape& shape) {
  assert(index.size() == shape.size());
  Expr offset = constant(0);
  Dim stride = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    offset = add(mul(index[axis], stride), offset);
    stride *= shape[axis];
  }
  return offset;
}

std::optional<Expr> IndexMath::undivided_offset(std::span<const Expr> index, const Shape& shape) {
  const auto divides = [this](Expr expr) {
    if (pool_[expr].num_arguments == 0) return false;
    const auto reachable = reachable_exprs(pool_, expr);
    return std::any_of(reachable.begin(), reachable.end(), [this](Expr each) {
      return pool_[each].kind == ExprKind::Div || pool_[each].kind == ExprKind::Mod;
    });
  };
  if (std::none_of(index.begin(), index.end(), divides)) return std::nullopt;
  const Expr offset = linearize(index, shape);
  return divides(offset) ? std::nullopt : std::optional(offset);
}

std::vector<Expr> IndexMath::delinearize(Expr linear, const Shape& shape) {
  std::vector<Expr> index(shape.size(), constant(0));
  Dim stride = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    const Expr quotient = div(linear, stride);
    index[axis] = axis == 0 ? quotient : mod(quotient, shape[axis]);
    stride *= shape[axis];
  }
  return index;
}

std::vector<Expr> IndexMath::through_reshape(std::span<const Expr> index, const Shape& from,
                                             const Shape& to) {
  assert(index.size() == to.size());
  std::vector<Expr> result(from.size(), constant(0));
  std::size_t from_axis = 0;
  std::size_t to_axis = 0;
  while (from_axis < from.size() || to_axis < to.size()) {
    // Grow the group on both sides until the products agree; what never agrees ends in one last
    // group that holds all the rest.
    std::size_t from_end = from_axis;
    std::size_t to_end = to_axis;
    Dim from_product = 1;
    Dim to_product = 1;
    do {
      // The side whose product divides the other's is behind and takes the next dimension.
      const bool from_is_behind = opweld::mod(to_product, from_product) == Dim(0);
      const bool take_from = to_end == to.size() || (from_end < from.size() && from_is_behind);
      if (take_from) {
        from_product *= from[from_end++];
      } else {
        to_product *= to[to_end++];
      }
    } while (!(from_product == to_product) && (from_end < from.size() || to_end < to.size()));

    const Shape from_group(from.begin() + static_cast<std::ptrdiff_t>(from_axis),
                           from.begin() + static_cast<std::ptrdiff_t>(from_end));
    const Shape to_group(to.begin() + static_cast<std::ptrdiff_t>(to_axis),
                         to.begin() + static_cast<std::ptrdiff_t>(to_end));
    const Expr linear = linearize(index.subspan(to_axis, to_end - to_axis), to_group);
    const std::vector<Expr> part = delinearize(linear, from_group);
    std::copy(part.begin(), part.end(), result.begin() + static_cast<std::ptrdiff_t>(from_axis));
    from_axis = from_end;
    to_axis = to_end;
  }
  return result;
}

}  // namespace opweld::tile
