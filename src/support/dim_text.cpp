// A Dim as text, and back.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <numeric>
#include <utility>

#include "support/dim_polynomial.h"

namespace opweld {
namespace dim_detail {
namespace {

// ---- printing ----

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

std::string atom_text(const Atom& atom) {
  switch (atom.kind) {
    case AtomKind::Symbol:
      return symbol_reference(atom.symbol->name);
    case AtomKind::FloorDiv:
      return quotient_text("floor_div", atom.arguments[0], atom.arguments[1],
                           scale_to_symbols(atom.arguments[0]));
    case AtomKind::Min:
      return call_text("min", atom.arguments);
    case AtomKind::Max:
      return call_text("max", atom.arguments);
  }
  return {};
}

// Prints coefficient * factors * last. A quotient symbol u = s/d takes its d out of the
// coefficient, as far as that goes.
Piece product_piece(Term term, const std::string& last) {
  const bool negative = term.coefficient < 0;
  auto magnitude = static_cast<uint64_t>(term.coefficient);
  if (negative) magnitude = 0 - magnitude;
  std::vector<std::string> parts;
  for (const auto& [atom, power] : term.factors) {
    int whole_powers = 0;
    for (int i = 0; i < power; ++i) {
      const auto divisor =
          static_cast<uint64_t>(atom->kind == AtomKind::Symbol ? atom->symbol->range.divisor : 1);
      const uint64_t taken = std::gcd(magnitude, divisor);
      magnitude /= taken;
      if (taken == divisor) {
        ++whole_powers;
      } else {
        parts.push_back(fmt::format("floor_div({}, {})", atom_text(*atom), divisor / taken));
      }
    }
    if (whole_powers > 0) parts.push_back(atom_text(*atom));
    if (whole_powers > 1) parts.back() += fmt::format("^{}", whole_powers);
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

std::string to_text(const Dim& dim) {
  if (dim.is_overflow()) return "overflow";
  if (dim.is_constant()) return fmt::format("{}", *dim.constant());
  Dim sum = dim;
  std::vector<Piece> pieces;
  for (const Modulo& modulo : extract_modulos(sum)) pieces.push_back(modulo_piece(modulo));
  const Terms terms = terms_of(sum);
  std::vector<Piece> others;
  for (const Term& term : terms) others.push_back(product_piece(term, ""));
  // Modulos come after whatever else has unknowns, and before the constant.
  const bool has_constant = !terms.empty() && terms.back().factors.empty();
  pieces.insert(pieces.begin(), others.begin(), others.end() - (has_constant ? 1 : 0));
  if (has_constant) pieces.push_back(others.back());
  return join(pieces);
}

}  // namespace
}  // namespace dim_detail

std::string Dim::to_string() const {
  return dim_detail::to_text(*this);
}

// ---- parsing ----

namespace {

// sum     := product (("+" | "-") product)*
// product := factor ("*" factor)*
// factor  := "-" factor | primary ("^" integer)?
// primary := integer | symbol | function "(" sum ("," sum)* ")" | "(" sum ")"
class DimParser {
 public:
  DimParser(std::string_view text, const SymbolTable& symbols) : text_(text), symbols_(symbols) {}

  Expected<Dim> parse() {
    OPWELD_TRY(Dim result, sum());
    if (peek() != '\0') return error("unexpected text");
    if (result.is_overflow()) return error("the value is too large");
    return result;
  }

 private:
  // Deeper nesting than this is no size anybody writes, and would exhaust the stack.
  static constexpr int kMaxNesting = 100;
  static constexpr int kMaxPower = 64;

  tl::unexpected<Error> error(std::string_view problem) const {
    return fail("'{}' is no size: {} at column {}", text_, problem, position_ + 1);
  }

  // The next character that is no space; '\0' at the end.
  char peek() {
    while (position_ < text_.size() &&
           std::string_view(" \t\r\n").find(text_[position_]) != std::string_view::npos) {
      ++position_;
    }
    return position_ < text_.size() ? text_[position_] : '\0';
  }

  bool take(char wanted) {
    if (wanted == '\0' || peek() != wanted) return false;
    ++position_;
    return true;
  }

  Expected<Dim> sum() {
    if (++nesting_ > kMaxNesting) return error("too deeply nested");
    OPWELD_TRY(Dim result, product());
    while (peek() == '+' || peek() == '-') {
      const bool plus = text_[position_++] == '+';
      OPWELD_TRY(const Dim operand, product());
      result = plus ? result + operand : result - operand;
    }
    --nesting_;
    return result;
  }

  Expected<Dim> product() {
    OPWELD_TRY(Dim result, factor());
    while (take('*')) {
      OPWELD_TRY(const Dim operand, factor());
      result *= operand;
    }
    return result;
  }

  Expected<Dim> factor() {
    bool negative = false;
    while (take('-')) negative = !negative;
    OPWELD_TRY(Dim base, primary(negative));
    if (!take('^')) return base;
    OPWELD_TRY(const int64_t power, integer(false));
    if (power < 1 || power > kMaxPower) return error("a power must be between 1 and 64");
    Dim result = base;
    for (int64_t i = 1; i < power; ++i) result *= base;
    return result;
  }

  Expected<int64_t> integer(bool negative) {
    const char first = peek();
    if (first < '0' || first > '9') return error("expected a number");
    std::string digits = negative ? "-" : "";
    while (position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9') {
      digits += text_[position_++];
    }
    int64_t value = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (code != std::errc()) return error("the number is too large");
    return value;
  }

  Expected<Dim> primary(bool negative) {
    const char first = peek();
    if (first >= '0' && first <= '9')
      return integer(negative).map([](int64_t v) { return Dim(v); });
    Dim result;
    if (take('(')) {
      OPWELD_TRY(result, sum());
      if (!take(')')) return error("expected ')'");
    } else {
      OPWELD_TRY(const std::string word, name());
      const bool call = !was_quoted_ && take('(');
      OPWELD_TRY(result, call ? function(word) : symbol(word));
    }
    return negative ? -result : result;
  }

  Expected<std::string> name() {
    was_quoted_ = take('"');
    if (was_quoted_) return quoted_name();
    const size_t start = position_;
    const auto part_of_name = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    };
    while (position_ < text_.size() && part_of_name(text_[position_])) ++position_;
    if (position_ == start) return error("expected a number, a name or '('");
    return std::string(text_.substr(start, position_ - start));
  }

  Expected<std::string> quoted_name() {
    std::string result;
    while (position_ < text_.size()) {
      char c = text_[position_++];
      if (c == '"') return result;
      if (c == '\\' && position_ < text_.size()) {
        c = text_[position_++];
        if (c == 'n') c = '\n';
      }
      result += c;
    }
    return error("the quote is not closed");
  }

  Expected<Dim> symbol(const std::string& name) {
    const auto info = symbols_.find(name);
    if (info == nullptr) return error(fmt::format("unknown symbol '{}'", name));
    return Dim::symbol(info);
  }

  Expected<Dim> function(const std::string& name) {
    using Function = Dim (*)(const Dim&, const Dim&);
    const Function apply = name == "floor_div"  ? &floor_div
                           : name == "ceil_div" ? &ceil_div
                           : name == "mod"      ? &mod
                           : name == "min"      ? static_cast<Function>(&min)
                           : name == "max"      ? static_cast<Function>(&max)
                                                : nullptr;
    if (apply == nullptr) return error(fmt::format("unknown function '{}'", name));
    OPWELD_TRY(Dim result, sum());
    int count = 1;
    while (take(',')) {
      OPWELD_TRY(const Dim operand, sum());
      result = apply(result, operand);
      ++count;
    }
    if (!take(')')) return error("expected ')'");
    const bool any_number = name == "min" || name == "max";
    if (count < 2 || (count > 2 && !any_number)) return error("wrong number of arguments");
    return result;
  }

  std::string_view text_;
  const SymbolTable& symbols_;
  size_t position_ = 0;
  int nesting_ = 0;
  bool was_quoted_ = false;
};

}  // namespace

Expected<Dim> Dim::parse(std::string_view text, const SymbolTable& symbols) {
  return DimParser(text, symbols).parse();
}

}  // namespace opweld
