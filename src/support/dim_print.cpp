// A Dim as text.
#include <algorithm>
#include <numeric>
#include <ostream>
#include <utility>

#include "support/dim_polynomial.h"

namespace opweld {
namespace dim_detail {
namespace {

// One summand of the text, without its sign.
struct Piece {
  bool negative = false;
  std::string text;
};

std::string to_text(const Dim& dim);

std::string join(const std::vector<Piece>& pieces) {
  std::string text;
  for (const Piece& piece : pieces) {
    if (text.empty()) {
      text = piece.negative ? "-" : "";
    } else {
      text += piece.negative ? " - " : " + ";
    }
    text += piece.text;
  }
  return text;
}

// Symbols with a divisor d enter as quotients u = s/d. What a dividend must be multiplied by (and
// the divisor with it), so that it prints in terms of s alone.
int64_t scale_to_symbols(const Dim& dim) {
  int64_t scale = 1;
  for (const Term& term : terms_of(dim)) {
    int64_t divisor = 1;
    for (const auto& [atom, power] : term.factors) {
      if (atom->kind != AtomKind::Symbol) continue;
      for (int i = 0; i < power; ++i) {
        if (__builtin_mul_overflow(divisor, atom->symbol->range.divisor, &divisor)) return 1;
      }
    }
    if (term.coefficient == Dim::kMinusInfinity) return 1;
    const int64_t missing = divisor / std::gcd(divisor, term.coefficient);
    if (__builtin_mul_overflow(scale / std::gcd(scale, missing), missing, &scale)) return 1;
  }
  return scale;
}

std::string call_text(const char* function, const std::vector<Dim>& arguments) {
  std::string text = function;
  for (size_t i = 0; i < arguments.size(); ++i) {
    text += (i == 0 ? "(" : ", ") + to_text(arguments[i]);
  }
  return text + ")";
}

// floor_div(x, y) and mod(x, y): common factors may be put back where that reads better.
std::string quotient_text(const char* function, const Dim& dividend, const Dim& divisor,
                          int64_t scale) {
  const Dim scaled_dividend = dividend * scale;
  const Dim scaled_divisor = divisor * scale;
  const bool usable = !scaled_dividend.is_overflow() && !scaled_divisor.is_overflow();
  return usable ? call_text(function, {scaled_dividend, scaled_divisor})
                : call_text(function, {dividend, divisor});
}

// min(-x, -y) reads better as -max(x, y).
bool reads_as_max(const std::vector<Dim>& arguments) {
  int balance = 0;
  for (const Dim& argument : arguments) {
    if ((-argument).is_overflow()) return false;
    if (!argument.is_constant()) balance += terms_of(argument)[0].coefficient < 0 ? -1 : 1;
  }
  return balance < 0;
}

std::string min_text(const std::vector<Dim>& arguments) {
  if (!reads_as_max(arguments)) return call_text("min", arguments);
  std::vector<Dim> negated;
  negated.reserve(arguments.size());
  for (const Dim& argument : arguments) negated.push_back(-argument);
  return call_text("max", negated);
}

// A minimum that prints as a maximum is its negative.
std::string atom_text(const Atom& atom) {
  switch (atom.kind) {
    case AtomKind::Symbol:
      return symbol_reference(atom.symbol->name);
    case AtomKind::FloorDiv:
      return quotient_text("floor_div", atom.arguments[0], atom.arguments[1],
                           scale_to_symbols(atom.arguments[0]));
    case AtomKind::Min:
      return min_text(atom.arguments);
  }
  return {};
}

// Prints the factors of `coefficient`. A quotient symbol u = s/d takes its d out of the
// coefficient, as far as that goes.
std::vector<std::string> factor_texts(const Factor& factor, uint64_t& coefficient) {
  const Atom& atom = *factor.atom;
  const auto divisor =
      static_cast<uint64_t>(atom.kind == AtomKind::Symbol ? atom.symbol->range.divisor : 1);
  const std::string name = atom_text(atom);
  std::vector<std::string> texts;
  int whole_powers = 0;
  for (int i = 0; i < factor.power; ++i) {
    const uint64_t taken = std::gcd(coefficient, divisor);
    coefficient /= taken;
    if (taken == divisor) {
      ++whole_powers;
    } else {
      texts.push_back(fmt::format("floor_div({}, {})", name, divisor / taken));
    }
  }
  if (whole_powers == 1) texts.push_back(name);
  if (whole_powers > 1) texts.push_back(fmt::format("{}^{}", name, whole_powers));
  return texts;
}

// Prints coefficient * factors * last.
Piece product_piece(const Term& term, const std::string& last = {}) {
  bool negative = term.coefficient < 0;
  auto magnitude = static_cast<uint64_t>(term.coefficient);
  if (negative) magnitude = 0 - magnitude;
  std::vector<std::string> parts;
  for (const Factor& factor : term.factors) {
    for (std::string& text : factor_texts(factor, magnitude)) parts.push_back(std::move(text));
    if (factor.atom->kind == AtomKind::Min && factor.power % 2 == 1 &&
        reads_as_max(factor.atom->arguments)) {
      negative = !negative;
    }
  }
  if (!last.empty()) parts.push_back(last);
  if (magnitude != 1 || parts.empty()) parts.insert(parts.begin(), fmt::format("{}", magnitude));
  return {negative, fmt::format("{}", fmt::join(parts, "*"))};
}

// Whether subtracting `part` from `whole` only makes coefficients smaller.
bool contains(const Dim& whole, const Dim& part) {
  const Terms terms = terms_of(whole);
  const Terms parts = terms_of(part);
  return std::all_of(parts.begin(), parts.end(), [&](const Term& wanted) {
    return std::any_of(terms.begin(), terms.end(), [&](const Term& term) {
      const bool same_sign = (term.coefficient < 0) == (wanted.coefficient < 0);
      const bool enough = wanted.coefficient < 0 ? term.coefficient <= wanted.coefficient
                                                 : term.coefficient >= wanted.coefficient;
      return same_sign && enough && compare_monomials(term.factors, wanted.factors) == 0;
    });
  });
}

// factor * mod(dividend, divisor)
struct Modulo {
  Term factor;
  Dim dividend;
  Dim divisor;
};

// Finds k*x - k*y*floor_div(x, y) within the sum, for the given floor_div.
std::optional<Modulo> modulo_of(const Dim& sum, const AtomPtr& quotient) {
  const Dim& dividend = quotient->arguments[0];
  const Dim& divisor = quotient->arguments[1];
  Dim coefficient;
  for (const Term& term : terms_of(sum)) {
    if (const auto rest = divide_exactly(term, {1, {{quotient, 1}}})) {
      coefficient += make_dim(*rest);
    }
  }
  if (coefficient.is_overflow() || coefficient == 0) return std::nullopt;
  const Terms numerator = terms_of(-coefficient);
  const auto factor = divide_exactly(numerator.front(), terms_of(divisor).front());
  if (!factor || make_dim(*factor) * divisor != -coefficient) return std::nullopt;
  if (!contains(sum, make_dim(*factor) * dividend)) return std::nullopt;
  return Modulo{*factor, dividend, divisor};
}

// Folds differences back into modulos, as long as there are any; leaves the others in `sum`.
std::vector<Modulo> extract_modulos(Dim& sum) {
  std::vector<Modulo> result;
  for (bool found = true; found;) {
    found = false;
    for (const Term& term : terms_of(sum)) {
      for (const auto& [atom, power] : term.factors) {
        if (atom->kind != AtomKind::FloorDiv || power != 1 || found) continue;
        auto modulo = modulo_of(sum, atom);
        if (!modulo) continue;
        const Dim value = modulo->dividend - modulo->divisor * make_dim(atom);
        const Dim rest = sum - make_dim(modulo->factor) * value;
        if (rest.is_overflow()) continue;
        found = true;
        sum = rest;
        result.push_back(std::move(*modulo));
        break;
      }
      if (found) break;
    }
  }
  return result;
}

Piece modulo_piece(const Modulo& modulo) {
  // k*mod(x, y) = (k/g)*mod(g*x, g*y), where g divides k.
  Term factor = modulo.factor;
  int64_t scale = scale_to_symbols(modulo.dividend);
  if (factor.coefficient % scale != 0) scale = 1;
  factor.coefficient /= scale;
  return product_piece(factor, quotient_text("mod", modulo.dividend, modulo.divisor, scale));
}

int64_t constant_part(const Dim& dim) {
  const Terms terms = terms_of(dim);
  return !terms.empty() && terms.back().factors.empty() ? terms.back().coefficient : 0;
}

// k*min(x - c, y) + k*c reads better as k*min(x, y + c). Takes the two terms out of the sum.
std::optional<Piece> extract_shifted_min(Dim& sum) {
  const int64_t constant = constant_part(sum);
  if (constant == 0) return std::nullopt;
  for (const Term& term : terms_of(sum)) {
    const AtomPtr atom = as_atom(term);
    if (atom == nullptr || atom->kind != AtomKind::Min) continue;
    const auto shift = divide_exactly({constant, {}}, {term.coefficient, {}});
    if (!shift) continue;
    std::vector<Dim> arguments;
    bool reads_better = false;
    for (const Dim& argument : atom->arguments) {
      arguments.push_back(argument + shift->coefficient);
      reads_better |= !argument.is_constant() && constant_part(arguments.back()) == 0;
    }
    const auto overflowed = [](const Dim& argument) { return argument.is_overflow(); };
    if (!reads_better || std::any_of(arguments.begin(), arguments.end(), overflowed)) continue;
    Piece piece = product_piece({term.coefficient, {}}, min_text(arguments));
    if (reads_as_max(arguments)) piece.negative = !piece.negative;
    sum = sum - make_dim(term) - constant;
    return piece;
  }
  return std::nullopt;
}

std::string to_text(const Dim& dim) {
  if (dim.is_overflow()) return "overflow";
  if (dim.is_constant()) return fmt::format("{}", *dim.constant());
  Dim sum = dim;
  const std::vector<Modulo> modulos = extract_modulos(sum);
  const std::optional<Piece> shifted_min = extract_shifted_min(sum);
  std::vector<Piece> pieces;
  for (const Term& term : terms_of(sum)) {
    if (!term.factors.empty()) pieces.push_back(product_piece(term));
  }
  if (shifted_min) pieces.push_back(*shifted_min);
  for (const Modulo& modulo : modulos) pieces.push_back(modulo_piece(modulo));
  if (const int64_t constant = constant_part(sum); constant != 0) {
    pieces.push_back(product_piece({constant, {}}));
  }
  return join(pieces);
}

}  // namespace
}  // namespace dim_detail

std::string Dim::to_string() const {
  return dim_detail::to_text(*this);
}

std::ostream& operator<<(std::ostream& stream, const Dim& dim) {
  return stream << dim.to_string();
}

}  // namespace opweld
