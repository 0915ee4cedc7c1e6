// The canonical form behind Dim: a sorted sum of coefficient * product of atoms.
//
// Three choices make few forms out of many expressions:
//  - a symbol with divisor d enters as d*u, where the atom u is the quotient symbol/d. So
//    coefficients alone carry all knowledge about divisibility;
//  - there is no modulo atom: mod(a, b) is a - b*floor_div(a, b), and only printing folds it back;
//  - there is no maximum atom: max(a, b) is -min(-a, -b), likewise.
//
// Private to the files of Dim.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "support/dim.h"
#include "support/dim_interval.h"

namespace opweld::dim_detail {

enum class AtomKind { Symbol, FloorDiv, Min };

struct Atom {
  AtomKind kind = AtomKind::Symbol;
  std::shared_ptr<const SymbolInfo> symbol;  // Symbol: the atom is symbol / symbol->range.divisor
  std::vector<Dim> arguments;                // FloorDiv: dividend, divisor. Min: two or more
  Interval range;
  size_t hash = 0;
  int weight = 1;  // number of atoms and terms in here, counted as a tree
  int depth = 1;
};
using AtomPtr = std::shared_ptr<const Atom>;

struct Factor {
  AtomPtr atom;
  int power = 1;
};

// A product of atoms, sorted by compare_atoms; empty for 1.
using Monomial = std::vector<Factor>;

struct Term {
  int64_t coefficient = 0;  // never 0 in a polynomial
  Monomial factors;
};

// Sorted by compare_monomials (the highest first), no monomial twice.
using Terms = std::vector<Term>;

struct Polynomial {
  Terms terms;
  size_t hash = 0;
  int weight = 0;
  int depth = 0;
};

// What an expression may grow to before it counts as overflow: far more than any sensible shape
// needs, and little enough that recursion over it is safe.
inline constexpr int kMaxWeight = 2000;
inline constexpr int kMaxDepth = 64;

std::strong_ordering compare_atoms(const Atom& a, const Atom& b);
// Graded lexicographic: a monomial order that multiplication respects, as division needs.
std::strong_ordering compare_monomials(const Monomial& a, const Monomial& b);
std::strong_ordering compare(const Dim& a, const Dim& b);

// The terms of a Dim that is no overflow (none for 0).
Terms terms_of(const Dim& dim);

// Nothing stands for overflow in all of these.
std::optional<Terms> add(const Terms& a, const Terms& b);
std::optional<Terms> multiply(const Terms& a, const Term& b);
std::optional<Terms> multiply(const Terms& a, const Terms& b);
std::optional<Term> multiply(const Term& a, const Term& b);

// The quotient a / b if it is exact, coefficient included.
std::optional<Term> divide_exactly(const Term& a, const Term& b);

Dim make_dim(std::optional<Terms> terms);
Dim make_dim(Term term);
Dim make_dim(const AtomPtr& atom);  // overflow for null

// Null if the result would be too large.
AtomPtr make_atom(AtomKind kind, std::vector<Dim> arguments);
AtomPtr make_symbol_atom(std::shared_ptr<const SymbolInfo> symbol);

// The atom, if the expression is 1 * atom; else null.
AtomPtr as_atom(const Dim& dim);
AtomPtr as_atom(const Term& term);  // whatever the coefficient

// Bounds over all values of the symbols.
Interval bounds(const Dim& dim);

}  // namespace opweld::dim_detail
