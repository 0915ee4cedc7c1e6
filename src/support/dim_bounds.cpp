// Bounds of a Dim.
//
// Plain interval arithmetic forgets that the same unknown occurs twice: s - 8*floor_div(s, 8) would
// seem to be as small as -max(s). So each floor_div and min that enters linearly is also replaced
// by what it is known to lie between, in terms of the same unknowns, and the bounds of the result
// are intersected with the plain ones:
//   floor(x / y) = (x - m) / y   with 0 <= m <= y - 1   (y > 0)
//   min(x, y)    is one of x and y, and at most each of them.
// Likewise b*s - s >= 0 for b >= 1 shows only once the unknowns are measured from their least
// values: (b' + 1)*(s' + 1) - (s' + 1) = b'*s' + b'.
#include <algorithm>
#include <memory>
#include <optional>

#include "support/dim_polynomial.h"

namespace opweld::dim_detail {
namespace {

// Replacements nest; this many are tried for one query.
constexpr int kBudget = 24;

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

// The term with one power of factor number `index` taken away.
Term without_factor(const Term& term, size_t index) {
  Term rest = term;
  rest.factors.erase(rest.factors.begin() + static_cast<std::ptrdiff_t>(index));
  return rest;
}

// A value linear in something bounded lies between its values at the two ends.
Interval between(const Dim& one_end, const Dim& other_end, int& budget) {
  return hull(refined_bounds(one_end, budget), refined_bounds(other_end, budget));
}

// others + rest * floor(x / y)
Interval expand_quotient(const Dim& others, const Term& rest, const Atom& atom, int& budget) {
  const Dim& dividend = atom.arguments[0];
  const Dim& divisor = atom.arguments[1];
  if (divisor.is_constant()) {
    // y times the value is y*others + rest*x - rest*m, linear in m.
    const int64_t scale = *divisor.constant();
    const Dim exact = others * scale + make_dim(rest) * dividend;
    const Interval scaled = between(exact, exact - make_dim(rest) * (scale - 1), budget);
    // Divided by y again, the lower end rounds up and the upper one down.
    const Interval y{scale, scale};
    const Interval up = Interval{scaled.low, scaled.low} + Interval{scale - 1, scale - 1};
    return {floor_div(up, y).low, floor_div({scaled.high, scaled.high}, y).high};
  }
  // A product of unknowns that divides the rest needs no scaling. If it is not negative, then it is
  // positive, being a divisor.
  if (divisor.polynomial()->terms.size() != 1 || bounds(divisor).low < 0) return {};
  const auto factor = divide_exactly(rest, divisor.polynomial()->terms[0]);
  if (!factor) return {};
  const Dim exact = others + make_dim(*factor) * dividend;
  return between(exact, exact - make_dim(*factor) * (divisor - 1), budget);
}

// others + rest * min(...)
Interval expand_min(const Dim& others, const Term& rest, const Atom& atom, int& budget) {
  Interval either{Dim::kPlusInfinity, Dim::kMinusInfinity};
  Interval each;
  for (const Dim& argument : atom.arguments) {
    const Interval range = refined_bounds(others + make_dim(rest) * argument, budget);
    either = hull(either, range);
    each = intersect(each, range);
  }
  const Interval sign = plain_bounds({rest});
  if (sign.low >= 0) either.high = each.high;
  if (sign.high <= 0) either.low = each.low;
  return either;
}

// The same sum in unknowns that start at 0. Nothing if it is not worth it or gets out of hand.
std::optional<Terms> measure_from_least(const Terms& terms) {
  constexpr size_t kMaxTerms = 16;
  constexpr int kMaxPower = 4;
  if (terms.size() > kMaxTerms) return std::nullopt;
  std::optional<Terms> sum = Terms{};
  for (const Term& term : terms) {
    std::optional<Terms> product = Terms{{term.coefficient, {}}};
    for (const auto& [atom, exponent] : term.factors) {
      if (exponent > kMaxPower) return std::nullopt;
      auto shifted = std::make_shared<Atom>(*atom);
      Terms value = {{1, {{shifted, 1}}}};
      if (const int64_t least = atom->range.low; least != Dim::kMinusInfinity && least != 0) {
        shifted->range = atom->range + Interval{least, least} * Interval{-1, -1};
        value.push_back({least, {}});
      }
      for (int i = 0; i < exponent && product; ++i) product = multiply(*product, value);
    }
    if (product) sum = add(*sum, *product);
    if (!product || !sum) return std::nullopt;
  }
  return sum;
}

// Whether some term is a product of unknowns; plain bounds of all others are as good as it gets.
bool has_products(const Terms& terms) {
  return std::any_of(terms.begin(), terms.end(), [](const Term& term) {
    return term.factors.size() > 1 || (term.factors.size() == 1 && term.factors[0].power > 1);
  });
}

Interval independent_bounds(const Terms& terms) {
  const Interval range = plain_bounds(terms);
  if (terms.size() == 1 || !has_products(terms)) return range;
  const auto measured = measure_from_least(terms);
  return measured ? intersect(range, plain_bounds(*measured)) : range;
}

Interval refined_bounds(const Dim& dim, int& budget) {
  if (dim.is_overflow()) return {};
  if (dim.is_constant()) return {*dim.constant(), *dim.constant()};
  const Terms& terms = dim.polynomial()->terms;
  Interval range = independent_bounds(terms);
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
                                   : expand_min(others, rest, *atom, budget));
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
