// Bounds of a Dim.
//
// Plain interval arithmetic forgets that the same unknown occurs twice: s - 8*floor_div(s, 8) would
// seem to be as small as -max(s). So each floor_div, min and max that enters linearly is also
// replaced by what it is known to lie between, in terms of the same unknowns, and the bounds of the
// result are intersected with the plain ones:
//   floor(x / y) = (x - m) / y   with 0 <= m <= y - 1   (y > 0)
//   min(x, y)    is one of x and y, and at most each of them; max likewise.
#include <optional>

#include "support/dim_polynomial.h"

namespace opweld::dim_detail {
namespace {

// Replacements nest; this many are tried for one query.
constexpr int kBudget = 60;

Interval refined_bounds(const Dim& dim, int& budget);

Interval plain_bounds(const Terms& terms) {
  Interval sum{0, 0};
  for (const Term& term : terms) {
    Interval product{term.coefficient, term.coefficient};
    for (const auto& [atom, exponent] : term.factors) {
      product = product * power(atom->range, exponent);
    }
    sum = sum + product;
  }
  return sum;
}

Interval monomial_bounds(const Term& term) {
  return plain_bounds({term});
}

// The term with one power of factor number `index` taken away.
Term without_factor(const Term& term, size_t index) {
  Term rest = term;
  rest.factors.erase(rest.factors.begin() + static_cast<std::ptrdiff_t>(index));
  return rest;
}

// others + rest * floor(x / y), for the constant y: y times it is y*others + rest*x - rest*m.
Interval expand_quotient(const Dim& others, const Term& rest, const Atom& atom, int& budget) {
  const Dim& dividend = atom.arguments[0];
  const Dim& divisor = atom.arguments[1];
  if (const auto exact = divide_exactly(rest, terms_of(divisor).front());
      exact && divisor.polynomial() != nullptr && divisor.polynomial()->terms.size() == 1) {
    // y is a product of unknowns that divides the rest: nothing needs scaling. A divisor that might
    // be 0 is known not to be.
    const Interval range = bounds(divisor);
    if (range.low < 0) return {};
    const Interval slack =
        monomial_bounds(*exact) * Interval{0, (range + Interval{-1, -1}).high} * Interval{-1, -1};
    return refined_bounds(others + make_dim(*exact) * dividend, budget) + slack;
  }
  if (!divisor.is_constant()) return {};
  const int64_t scale = *divisor.constant();
  const Interval slack = monomial_bounds(rest) * Interval{1 - scale, 0};
  const Interval scaled =
      refined_bounds(others * divisor + make_dim(rest) * dividend, budget) + slack;
  // Divide by the scale again: the lower end rounds up, the upper one down.
  const Interval low = floor_div(Interval{scaled.low, scaled.low} + Interval{scale - 1, scale - 1},
                                 Interval{scale, scale});
  const Interval high = floor_div(Interval{scaled.high, scaled.high}, Interval{scale, scale});
  return {low.low, high.high};
}

// others + rest * min(...), or max.
Interval expand_extreme(const Dim& others, const Term& rest, const Atom& atom, int& budget) {
  const Interval sign = monomial_bounds(rest);
  Interval either{Dim::kPlusInfinity, Dim::kMinusInfinity};
  Interval each;
  for (const Dim& argument : atom.arguments) {
    const Interval range = refined_bounds(others + make_dim(rest) * argument, budget);
    either = hull(either, range);
    each = intersect(each, range);
  }
  const bool at_most = atom.kind == AtomKind::Min ? sign.low >= 0 : sign.high <= 0;
  const bool at_least = atom.kind == AtomKind::Min ? sign.high <= 0 : sign.low >= 0;
  if (at_most) either.high = std::min(either.high, each.high);
  if (at_least) either.low = std::max(either.low, each.low);
  return either;
}

Interval refined_bounds(const Dim& dim, int& budget) {
  if (dim.is_overflow()) return {};
  if (dim.is_constant()) return {*dim.constant(), *dim.constant()};
  const Terms& terms = dim.polynomial()->terms;
  Interval range = plain_bounds(terms);
  if (terms.size() == 1) return range;
  for (const Term& term : terms) {
    for (size_t i = 0; i < term.factors.size(); ++i) {
      const auto& [atom, exponent] = term.factors[i];
      if (atom->kind == AtomKind::Symbol || exponent != 1) continue;
      if (--budget < 0) return range;
      const Dim others = dim - make_dim(term);
      const Term rest = without_factor(term, i);
      range = intersect(range, atom->kind == AtomKind::FloorDiv
                                   ? expand_quotient(others, rest, *atom, budget)
                                   : expand_extreme(others, rest, *atom, budget));
    }
  }
  return range;
}

}  // namespace

Interval bounds(const Dim& dim) {
  int budget = kBudget;
  return refined_bounds(dim, budget);
}

}  // namespace opweld::dim_detail
