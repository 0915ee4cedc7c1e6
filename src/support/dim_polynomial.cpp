#include "support/dim_polynomial.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <limits>
#include <utility>

namespace opweld::dim_detail {
namespace {

size_t mix(size_t seed, size_t value) {
  return seed ^ (value + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2));
}

int degree(const Monomial& monomial) {
  int sum = 0;
  for (const Factor& factor : monomial) sum += factor.power;
  return sum;
}

// Nothing if the polynomial is beyond the limits.
std::shared_ptr<const Polynomial> make_polynomial(Terms terms) {
  auto result = std::make_shared<Polynomial>();
  int64_t weight = 0;
  for (const Term& term : terms) {
    weight += 1;
    result->hash = mix(result->hash, static_cast<size_t>(term.coefficient));
    for (const auto& [atom, power] : term.factors) {
      weight += static_cast<int64_t>(power) * atom->weight;
      result->depth = std::max(result->depth, atom->depth);
      result->hash = mix(mix(result->hash, atom->hash), static_cast<size_t>(power));
    }
    if (weight > kMaxWeight) return nullptr;
  }
  result->weight = static_cast<int>(weight);
  result->terms = std::move(terms);
  return result;
}

Monomial multiply_monomials(const Monomial& a, const Monomial& b) {
  Monomial result;
  result.reserve(a.size() + b.size());
  auto i = a.begin();
  auto j = b.begin();
  while (i != a.end() && j != b.end()) {
    const auto order = compare_atoms(*i->atom, *j->atom);
    if (order == 0) {
      result.push_back({i->atom, i->power + j->power});
      ++i, ++j;
    } else {
      result.push_back(order < 0 ? *i++ : *j++);
    }
  }
  result.insert(result.end(), i, a.end());
  result.insert(result.end(), j, b.end());
  return result;
}

std::optional<Monomial> divide_monomials(const Monomial& a, const Monomial& b) {
  Monomial result;
  auto j = b.begin();
  for (const Factor& factor : a) {
    int power = factor.power;
    if (j != b.end() && compare_atoms(*factor.atom, *j->atom) == 0) power -= (j++)->power;
    if (power < 0) return std::nullopt;
    if (power > 0) result.push_back({factor.atom, power});
  }
  if (j != b.end()) return std::nullopt;
  return result;
}

}  // namespace

std::strong_ordering compare_atoms(const Atom& a, const Atom& b) {
  if (&a == &b) return std::strong_ordering::equal;
  if (a.kind != b.kind) return a.kind <=> b.kind;
  if (a.kind == AtomKind::Symbol) {
    const int order = a.symbol->name.compare(b.symbol->name);
    assert((order != 0 || a.symbol->range == b.symbol->range) &&
           "one symbol with two different ranges");
    return order <=> 0;
  }
  const size_t common = std::min(a.arguments.size(), b.arguments.size());
  for (size_t i = 0; i < common; ++i) {
    if (const auto order = compare(a.arguments[i], b.arguments[i]); order != 0) return order;
  }
  return a.arguments.size() <=> b.arguments.size();
}

std::strong_ordering compare_monomials(const Monomial& a, const Monomial& b) {
  if (const auto order = degree(b) <=> degree(a); order != 0) return order;
  const size_t common = std::min(a.size(), b.size());
  for (size_t i = 0; i < common; ++i) {
    if (const auto order = compare_atoms(*a[i].atom, *b[i].atom); order != 0) return order;
    if (const auto order = b[i].power <=> a[i].power; order != 0) return order;
  }
  return b.size() <=> a.size();
}

std::strong_ordering compare(const Dim& a, const Dim& b) {
  if (a.is_overflow() || b.is_overflow()) return a.is_overflow() <=> b.is_overflow();
  // Constants come after everything else, as they do among the terms of a polynomial.
  if (a.is_constant() && b.is_constant()) return *a.constant() <=> *b.constant();
  if (a.is_constant() || b.is_constant()) return a.is_constant() <=> b.is_constant();
  if (a.polynomial() == b.polynomial()) return std::strong_ordering::equal;
  const Terms& left = a.polynomial()->terms;
  const Terms& right = b.polynomial()->terms;
  const size_t common = std::min(left.size(), right.size());
  for (size_t i = 0; i < common; ++i) {
    if (const auto order = compare_monomials(left[i].factors, right[i].factors); order != 0) {
      return order;
    }
    if (const auto order = left[i].coefficient <=> right[i].coefficient; order != 0) return order;
  }
  return left.size() <=> right.size();
}

Terms terms_of(const Dim& dim) {
  assert(!dim.is_overflow());
  if (dim.polynomial() != nullptr) return dim.polynomial()->terms;
  const int64_t value = *dim.constant();
  return value == 0 ? Terms{} : Terms{{value, {}}};
}

std::optional<Terms> add(const Terms& a, const Terms& b) {
  Terms result;
  result.reserve(a.size() + b.size());
  auto i = a.begin();
  auto j = b.begin();
  while (i != a.end() && j != b.end()) {
    const auto order = compare_monomials(i->factors, j->factors);
    if (order != 0) {
      result.push_back(order < 0 ? *i++ : *j++);
      continue;
    }
    int64_t sum = 0;
    if (__builtin_add_overflow(i->coefficient, j->coefficient, &sum)) return std::nullopt;
    if (sum != 0) result.push_back({sum, i->factors});
    ++i, ++j;
  }
  result.insert(result.end(), i, a.end());
  result.insert(result.end(), j, b.end());
  return result;
}

std::optional<Term> multiply(const Term& a, const Term& b) {
  int64_t coefficient = 0;
  if (__builtin_mul_overflow(a.coefficient, b.coefficient, &coefficient)) return std::nullopt;
  return Term{coefficient, multiply_monomials(a.factors, b.factors)};
}

std::optional<Terms> multiply(const Terms& a, const Term& b) {
  if (b.coefficient == 0) return Terms{};
  Terms result;
  result.reserve(a.size());
  for (const Term& term : a) {
    auto product = multiply(term, b);
    if (!product) return std::nullopt;
    result.push_back(std::move(*product));
  }
  return result;
}

std::optional<Terms> multiply(const Terms& a, const Terms& b) {
  if (a.size() * b.size() > 2 * kMaxWeight) return std::nullopt;
  std::optional<Terms> result = Terms{};
  for (const Term& term : b) {
    const auto product = multiply(a, term);
    if (!product) return std::nullopt;
    result = add(*result, *product);
    if (!result) return std::nullopt;
  }
  return result;
}

std::optional<Term> divide_exactly(const Term& a, const Term& b) {
  if (b.coefficient == -1 && a.coefficient == std::numeric_limits<int64_t>::min()) {
    return std::nullopt;
  }
  if (a.coefficient % b.coefficient != 0) return std::nullopt;
  auto factors = divide_monomials(a.factors, b.factors);
  if (!factors) return std::nullopt;
  return Term{a.coefficient / b.coefficient, std::move(*factors)};
}

Dim make_dim(std::optional<Terms> terms) {
  if (!terms) return Dim::overflow();
  if (terms->empty()) return 0;
  if (terms->size() == 1 && terms->front().factors.empty()) return terms->front().coefficient;
  auto polynomial = make_polynomial(std::move(*terms));
  return polynomial == nullptr ? Dim::overflow() : Dim::from_polynomial(std::move(polynomial));
}

Dim make_dim(Term term) {
  if (term.coefficient == 0) return 0;
  return make_dim(Terms{std::move(term)});
}

Dim make_dim(const AtomPtr& atom) {
  if (atom == nullptr) return Dim::overflow();
  return make_dim(Term{1, {{atom, 1}}});
}

AtomPtr make_atom(AtomKind kind, std::vector<Dim> arguments) {
  auto atom = std::make_shared<Atom>();
  atom->kind = kind;
  atom->hash = mix(0, static_cast<size_t>(kind));
  int64_t weight = 1;
  for (const Dim& argument : arguments) {
    if (argument.is_overflow()) return nullptr;
    atom->hash = mix(atom->hash, argument.hash());
    if (argument.polynomial() == nullptr) continue;
    weight += argument.polynomial()->weight;
    atom->depth = std::max(atom->depth, argument.polynomial()->depth + 1);
  }
  if (weight > kMaxWeight || atom->depth > kMaxDepth) return nullptr;
  atom->weight = static_cast<int>(weight);
  if (kind == AtomKind::FloorDiv) {
    atom->range = floor_div(bounds(arguments[0]), bounds(arguments[1]));
  } else {
    atom->range = bounds(arguments[0]);
    for (const Dim& argument : arguments) {
      const Interval range = bounds(argument);
      atom->range.low = std::min(atom->range.low, range.low);
      atom->range.high = std::min(atom->range.high, range.high);
    }
  }
  atom->arguments = std::move(arguments);
  return atom;
}

AtomPtr make_symbol_atom(std::shared_ptr<const SymbolInfo> symbol) {
  auto atom = std::make_shared<Atom>();
  atom->kind = AtomKind::Symbol;
  atom->hash = std::hash<std::string>()(symbol->name);
  const SymbolRange& range = symbol->range;
  atom->range = {-floor_quotient(-range.min, range.divisor),
                 floor_quotient(range.max, range.divisor)};
  atom->symbol = std::move(symbol);
  return atom;
}

AtomPtr as_atom(const Term& term) {
  if (term.factors.size() != 1 || term.factors[0].power != 1) return nullptr;
  return term.factors[0].atom;
}

AtomPtr as_atom(const Dim& dim) {
  if (dim.polynomial() == nullptr || dim.polynomial()->terms.size() != 1) return nullptr;
  const Term& term = dim.polynomial()->terms[0];
  return term.coefficient == 1 ? as_atom(term) : nullptr;
}

}  // namespace opweld::dim_detail
