#include "support/dim.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "support/dim_polynomial.h"

namespace opweld {

using namespace dim_detail;

Dim Dim::from_polynomial(std::shared_ptr<const Polynomial> polynomial) {
  Dim result;
  result.polynomial_ = std::move(polynomial);
  return result;
}

Dim Dim::overflow() {
  Dim result;
  result.overflow_ = true;
  return result;
}

Dim Dim::symbol(std::string name, SymbolRange range) {
  return symbol(std::make_shared<const SymbolInfo>(SymbolInfo{std::move(name), range}));
}

Dim Dim::symbol(std::shared_ptr<const SymbolInfo> info) {
  assert(info->validate().has_value());
  const int64_t divisor = info->range.divisor;
  return make_dim(Term{divisor, {{make_symbol_atom(std::move(info)), 1}}});
}

std::shared_ptr<const SymbolInfo> Dim::as_symbol() const {
  if (polynomial_ == nullptr || polynomial_->terms.size() != 1) return nullptr;
  const auto& [coefficient, factors] = polynomial_->terms.front();
  if (factors.size() != 1 || factors.front().power != 1) return nullptr;
  const Atom& atom = *factors.front().atom;
  if (atom.kind != AtomKind::Symbol || coefficient != atom.symbol->range.divisor) return nullptr;
  return atom.symbol;
}

int64_t Dim::lower_bound() const {
  return bounds(*this).low;
}
int64_t Dim::upper_bound() const {
  return bounds(*this).high;
}

int64_t Dim::known_divisor() const {
  if (is_overflow()) return 1;
  uint64_t divisor = 0;
  for (const Term& term : terms_of(*this)) {
    const auto coefficient = static_cast<uint64_t>(term.coefficient);
    divisor = std::gcd(divisor, term.coefficient < 0 ? 0 - coefficient : coefficient);
  }
  // Only the constant -2^63 has a divisor that does not fit.
  return static_cast<int64_t>(std::min<uint64_t>(divisor, uint64_t{1} << 62));
}

bool Dim::divisible_by(int64_t divisor) const {
  if (is_overflow() || divisor == 0) return constant() == 0;
  if (divisor < -kPlusInfinity) return constant() == 0 || constant() == divisor;
  return known_divisor() % divisor == 0;
}

void Dim::collect_symbols(std::vector<std::shared_ptr<const SymbolInfo>>& symbols) const {
  if (polynomial_ == nullptr) return;
  const auto by_name = [](const auto& a, const auto& b) { return a->name < b->name; };
  for (const Term& term : polynomial_->terms) {
    for (const auto& [atom, power] : term.factors) {
      for (const Dim& argument : atom->arguments) argument.collect_symbols(symbols);
      if (atom->kind != AtomKind::Symbol) continue;
      const auto place = std::lower_bound(symbols.begin(), symbols.end(), atom->symbol, by_name);
      if (place == symbols.end() || (*place)->name != atom->symbol->name) {
        symbols.insert(place, atom->symbol);
      }
    }
  }
}

Dim Dim::substitute(const std::map<std::string, Dim, std::less<>>& replacements) const {
  if (polynomial_ == nullptr) return *this;
  const auto replace_atom = [&](const AtomPtr& atom) -> Dim {
    if (atom->kind == AtomKind::Symbol) {
      const auto found = replacements.find(atom->symbol->name);
      if (found == replacements.end()) return make_dim(atom);
      return floor_div(found->second, atom->symbol->range.divisor);
    }
    Dim result = atom->arguments[0].substitute(replacements);
    for (size_t i = 1; i < atom->arguments.size(); ++i) {
      const Dim argument = atom->arguments[i].substitute(replacements);
      result =
          atom->kind == AtomKind::FloorDiv ? floor_div(result, argument) : min(result, argument);
    }
    return result;
  };
  Dim sum;
  for (const Term& term : polynomial_->terms) {
    Dim product = term.coefficient;
    for (const auto& [atom, power] : term.factors) {
      const Dim factor = replace_atom(atom);
      for (int i = 0; i < power; ++i) product *= factor;
    }
    sum += product;
  }
  return sum;
}

Dim Dim::substitute(const Bindings& bindings) const {
  std::map<std::string, Dim, std::less<>> replacements;
  for (const auto& [name, value] : bindings) replacements.emplace(name, value);
  return substitute(replacements);
}

size_t Dim::hash() const {
  if (overflow_) return 0x6f76;
  return polynomial_ == nullptr ? std::hash<int64_t>()(value_) : polynomial_->hash;
}

bool operator==(const Dim& a, const Dim& b) {
  if (a.overflow_ || b.overflow_) return false;
  if (a.polynomial_ == nullptr || b.polynomial_ == nullptr) {
    return a.polynomial_ == b.polynomial_ && a.value_ == b.value_;
  }
  if (a.polynomial_ == b.polynomial_) return true;
  return a.polynomial_->hash == b.polynomial_->hash && compare(a, b) == 0;
}

namespace {

// The terms of a Dim that is no overflow, copied only where it is a number.
class TermsOf {
 public:
  explicit TermsOf(const Dim& dim) : polynomial_(dim.polynomial()) {
    if (polynomial_ == nullptr) number_ = terms_of(dim);
  }
  const Terms& operator*() const { return polynomial_ == nullptr ? number_ : polynomial_->terms; }

 private:
  const Polynomial* polynomial_;
  Terms number_;
};

}  // namespace

Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_overflow() || b.is_overflow()) return Dim::overflow();
  if (a.is_constant() && b.is_constant()) {
    int64_t sum = 0;
    return __builtin_add_overflow(a.value_, b.value_, &sum) ? Dim::overflow() : Dim(sum);
  }
  // Sums begin with 0, and products with 1.
  if (a == Dim(0)) return b;
  if (b == Dim(0)) return a;
  return make_dim(add(*TermsOf(a), *TermsOf(b)));
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.is_overflow() || b.is_overflow()) return Dim::overflow();
  if (a.is_constant() && b.is_constant()) {
    int64_t product = 0;
    return __builtin_mul_overflow(a.value_, b.value_, &product) ? Dim::overflow() : Dim(product);
  }
  if (a == Dim(1)) return b;
  if (b == Dim(1)) return a;
  if (const auto number = b.constant()) return make_dim(multiply(*TermsOf(a), Term{*number, {}}));
  if (const auto number = a.constant()) return make_dim(multiply(*TermsOf(b), Term{*number, {}}));
  return make_dim(multiply(*TermsOf(a), *TermsOf(b)));
}

Dim operator-(const Dim& a) {
  return a * Dim(-1);
}

Dim operator-(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) {
    int64_t difference = 0;
    return __builtin_sub_overflow(a.value_, b.value_, &difference) ? Dim::overflow()
                                                                   : Dim(difference);
  }
  return a + -b;
}

Dim ceil_div(const Dim& a, const Dim& b) {
  return floor_div(a + b - 1, b);
}

Dim mod(const Dim& a, const Dim& b) {
  const int64_t divisor = b.constant().value_or(0);
  if (a.is_constant() && divisor != 0) {
    if (divisor == -1) return 0;  // the machine's -2^63 % -1 traps
    const int64_t remainder = *a.constant() % divisor;
    return remainder != 0 && (remainder < 0) != (divisor < 0) ? remainder + divisor : remainder;
  }
  return a - b * floor_div(a, b);
}

Dim round_up(const Dim& a, const Dim& multiple) {
  return ceil_div(a, multiple) * multiple;
}

bool provably_le(const Dim& a, const Dim& b) {
  if (a == b) return true;
  return (b - a).lower_bound() >= 0;
}

bool provably_lt(const Dim& a, const Dim& b) {
  return (b - a).lower_bound() >= 1;
}

bool structural_less(const Dim& a, const Dim& b) {
  return compare(a, b) < 0;
}

}  // namespace opweld
