// floor_div and its rules.
#include <algorithm>
#include <cassert>
#include <numeric>
#include <optional>
#include <utility>

#include "support/dim_polynomial.h"

namespace opweld {
namespace dim_detail {
namespace {

// The value of floor(a / b) if bounds alone decide it.
std::optional<int64_t> quotient_by_bounds(const Dim& a, const Dim& b) {
  const Interval range = floor_div(bounds(a), bounds(b));
  return range.is_point() ? std::optional(range.low) : std::nullopt;
}

// True if 0 <= a < b is known, so that floor(a / b) = 0.
bool is_remainder(const Dim& a, const Dim& b) {
  return provably_le(0, a) && provably_lt(a, b);
}

// a = quotient * b + remainder.
struct Division {
  Dim quotient;
  Dim remainder;
};

// How a coefficient is split into quotient * b + rest.
enum class Split {
  Exact,     // as a whole or not at all
  Truncate,  // |rest| < b, with the sign of the coefficient
  Floor,     // 0 <= rest < b; unique, hence the canonical one
};

Division split_coefficients(const Dim& a, int64_t b, Split how) {
  Terms quotient;
  Terms remainder;
  for (const Term& term : terms_of(a)) {
    int64_t whole = term.coefficient / b;
    int64_t rest = term.coefficient % b;
    if (how == Split::Exact && rest != 0) {
      whole = 0;
      rest = term.coefficient;
    }
    if (how == Split::Floor && rest < 0) {
      --whole;
      rest += b;
    }
    if (whole != 0) quotient.push_back({whole, term.factors});
    if (rest != 0) remainder.push_back({rest, term.factors});
  }
  return {make_dim(std::move(quotient)), make_dim(std::move(remainder))};
}

// Moves multiples of b so that what remains shows its modulos: with b = 8, the remainder
// x + 6*floor(x/2) of 9x + 6*floor(x/2) is mod(x, 2) + 8*floor(x/2), hence less than 8 but for the
// second part, which goes to the quotient.
Division align_modulos(Division division, int64_t b) {
  const Terms rest = terms_of(division.remainder);
  for (const Term& term : rest) {
    const AtomPtr atom = as_atom(term);
    if (atom == nullptr || atom->kind != AtomKind::FloorDiv) continue;
    if (!atom->arguments[1].is_constant()) continue;
    // The remainder holds k*x, judged by the leading term of x.
    const Term leading = terms_of(atom->arguments[0]).front();
    const auto same = std::find_if(rest.begin(), rest.end(), [&](const Term& other) {
      return compare_monomials(other.factors, leading.factors) == 0;
    });
    if (same == rest.end() || same->coefficient % leading.coefficient != 0) continue;
    const Dim modulo_part =
        Dim(same->coefficient / leading.coefficient) * atom->arguments[1] + term.coefficient;
    const auto multiple = modulo_part.constant();
    if (!multiple || *multiple % b != 0) continue;
    division.quotient += make_dim(atom) * (*multiple / b);
    division.remainder -= make_dim(atom) * *multiple;
  }
  return division;
}

// Long division by the leading term, as far as coefficients divide; each step lowers the leading
// monomial, so it ends. Nothing on overflow.
std::optional<Division> long_division(const Dim& a, const Dim& b) {
  const Terms divisor = terms_of(b);
  Terms rest = terms_of(a);
  Terms quotient;
  Terms remainder;
  while (!rest.empty()) {
    const auto factor = divide_exactly(rest.front(), divisor.front());
    if (!factor) {
      remainder.push_back(rest.front());
      rest.erase(rest.begin());
      continue;
    }
    const auto negated = multiply(*factor, Term{-1, {}});
    const auto product = negated ? multiply(divisor, *negated) : std::nullopt;
    auto difference = product ? add(rest, *product) : std::nullopt;
    if (!difference || static_cast<int>(difference->size()) > kMaxWeight) return std::nullopt;
    rest = std::move(*difference);
    quotient.push_back(*factor);
  }
  return Division{make_dim(std::move(quotient)), make_dim(std::move(remainder))};
}

// The greatest term (coefficient > 0) that divides every term of `terms`, which are not empty.
Term content(const Terms& terms, std::optional<Term> start = std::nullopt) {
  Term common = start ? *start : terms.front();
  for (const Term& term : terms) {
    common.coefficient = std::gcd(common.coefficient, term.coefficient);
    std::erase_if(common.factors, [&](Factor& factor) {
      const auto same = std::find_if(
          term.factors.begin(), term.factors.end(),
          [&](const Factor& other) { return compare_atoms(*factor.atom, *other.atom) == 0; });
      factor.power = same == term.factors.end() ? 0 : std::min(factor.power, same->power);
      return factor.power == 0;
    });
  }
  return common;
}

bool is_one(const Term& term) {
  return term.coefficient == 1 && term.factors.empty();
}

Dim divide_all(const Terms& terms, const Term& divisor) {
  Terms result;
  for (const Term& term : terms) result.push_back(*divide_exactly(term, divisor));
  return make_dim(std::move(result));
}

// gcd must not meet -2^63, whose absolute value does not exist.
bool has_extreme_coefficient(const Dim& dim) {
  const Terms terms = terms_of(dim);
  return std::any_of(terms.begin(), terms.end(),
                     [](const Term& term) { return term.coefficient == Dim::kMinusInfinity; });
}

// The only term of a that is 1 * floor_div(...), if there is exactly one.
AtomPtr single_floor_div(const Dim& a) {
  AtomPtr found;
  for (const Term& term : terms_of(a)) {
    const AtomPtr atom = as_atom(term);
    if (term.coefficient != 1 || atom == nullptr || atom->kind != AtomKind::FloorDiv) continue;
    if (found != nullptr) return nullptr;
    found = atom;
  }
  return found;
}

// floor((floor(x / y) + r) / b) = floor((x + y*r) / (y*b)), for y > 0 or r = 0, and b > 0.
std::optional<Dim> flatten_nested(const Dim& a, const Dim& b) {
  const AtomPtr inner = single_floor_div(a);
  if (inner == nullptr || b.lower_bound() < 0) return std::nullopt;
  const Dim& dividend = inner->arguments[0];
  const Dim& divisor = inner->arguments[1];
  const Dim rest = a - make_dim(inner);
  if (rest != 0 && !divisor.is_constant()) return std::nullopt;
  const Dim flat_dividend = dividend + divisor * rest;
  const Dim flat_divisor = divisor * b;
  if (flat_dividend.is_overflow() || flat_divisor.is_overflow()) return std::nullopt;
  return floor_div(flat_dividend, flat_divisor);
}

// Known divisors of the non-constant terms cancel against b: floor((4s + 3) / 8) = floor(s / 2).
Dim cancel_common_divisor(const Dim& a, int64_t& b) {
  Terms terms = terms_of(a);
  int64_t common = b;
  for (const Term& term : terms) {
    if (!term.factors.empty()) common = std::gcd(common, term.coefficient);
  }
  for (Term& term : terms) term.coefficient = floor_quotient(term.coefficient, common);
  std::erase_if(terms, [](const Term& term) { return term.coefficient == 0; });
  b /= common;
  return make_dim(std::move(terms));
}

Dim divide_by_constant(const Dim& a, int64_t b) {
  if (b == 1) return a;
  if (const auto known = quotient_by_bounds(a, b)) return *known;
  // The three remainders differ by multiples of b; bounds may decide any of them.
  for (const Split how : {Split::Exact, Split::Truncate, Split::Floor}) {
    const Division division = split_coefficients(a, b, how);
    if (const auto known = quotient_by_bounds(division.remainder, b)) {
      return division.quotient + *known;
    }
    const Division aligned = align_modulos(division, b);
    if (const auto known = quotient_by_bounds(aligned.remainder, b)) {
      return aligned.quotient + *known;
    }
  }
  const Division whole = split_coefficients(a, b, Split::Floor);
  const Dim rest = cancel_common_divisor(whole.remainder, b);
  if (const auto flat = flatten_nested(rest, b)) return whole.quotient + *flat;
  return whole.quotient + make_dim(make_atom(AtomKind::FloorDiv, {rest, b}));
}

Dim divide_by_expression(const Dim& a, const Dim& b) {
  if (a == 0) return 0;
  if (const auto known = quotient_by_bounds(a, b)) return *known;
  if (is_remainder(a, b)) return 0;
  if (has_extreme_coefficient(a) || has_extreme_coefficient(b)) {
    return make_dim(make_atom(AtomKind::FloorDiv, {a, b}));
  }
  const Terms divisor = terms_of(b);
  if (divisor.front().coefficient < 0) return floor_div(-a, -b);

  // What divides everything cancels.
  const Term own_content = content(divisor);
  const Term common = content(terms_of(a), own_content);
  if (!is_one(common)) {
    return floor_div(divide_all(terms_of(a), common), divide_all(divisor, common));
  }
  // The divisor without its own common factor may divide exactly: s*(t+1) / (2*(t+1)) = s/2.
  if (!is_one(own_content) && divisor.size() > 1) {
    const auto division = long_division(a, divide_all(divisor, own_content));
    if (division && division->remainder == 0) {
      return floor_div(division->quotient, make_dim(own_content));
    }
  }
  const auto division = long_division(a, b);
  if (division && division->quotient != 0) {
    return division->quotient + floor_div(division->remainder, b);
  }
  if (const auto flat = flatten_nested(a, b)) return *flat;
  return make_dim(make_atom(AtomKind::FloorDiv, {a, b}));
}

}  // namespace
}  // namespace dim_detail

Dim floor_div(const Dim& a, const Dim& b) {
  using namespace dim_detail;
  if (a.is_overflow() || b.is_overflow() || b == 0) return Dim::overflow();
  if (!b.is_constant()) return divide_by_expression(a, b);
  const int64_t divisor = *b.constant();
  if (divisor < 0) return floor_div(-a, -b);
  if (a.is_constant()) return floor_quotient(*a.constant(), divisor);
  return divide_by_constant(a, divisor);
}

}  // namespace opweld
