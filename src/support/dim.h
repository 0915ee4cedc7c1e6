// Symbolic integers: sizes, offsets and strides of tensors whose shape is not all known.
//
// A Dim is an expression over named symbols, kept in a canonical form, so that equality of form is
// a proof of equality of value: 2*s + s == 3*s, mod(s*128, 64) == 0, s/4*4 + mod(s, 4) == s.
//
// Semantics. A Dim stands for a mathematical integer. Division rounds towards minus infinity and
// mod(a, b) = a - b*floor_div(a, b), so that the modulo has the sign of the divisor. Divisors are
// assumed to be non-zero: floor_div(s*t, t) is s, also where t might be 0.
//
// Overflow. An expression with a constant beyond int64, a division by the constant zero, or a size
// beyond every reasonable shape (hundreds of terms) becomes Dim::overflow(). It stays so under
// every operation, prints as "overflow", is equal to nothing (itself included), has no bounds and
// fails to evaluate. Whoever reads shapes from a file looks for is_overflow() and reports it.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/expected.h"
#include "support/symbol.h"

namespace opweld {

namespace dim_detail {
struct Polynomial;
}

class Dim {
 public:
  // The bound of a value about which nothing better is known.
  static constexpr int64_t kMinusInfinity = std::numeric_limits<int64_t>::min();
  static constexpr int64_t kPlusInfinity = std::numeric_limits<int64_t>::max();

  Dim() = default;  // zero

  template <std::integral Integer>
    requires(!std::same_as<Integer, bool>)
  Dim(Integer value) {  // NOLINT: a constant is a Dim wherever a Dim is expected
    if (std::in_range<int64_t>(value)) {
      value_ = static_cast<int64_t>(value);
    } else {
      *this = overflow();
    }
  }

  // Asserts that the description is valid (SymbolInfo::validate).
  static Dim symbol(std::string name, SymbolRange range = {});
  static Dim symbol(std::shared_ptr<const SymbolInfo> info);
  static Dim overflow();

  // The inverse of to_string(); every symbol of the text must be in `symbols`.
  static Expected<Dim> parse(std::string_view text, const SymbolTable& symbols);

  [[nodiscard]] bool is_overflow() const { return overflow_; }
  [[nodiscard]] bool is_constant() const { return !overflow_ && polynomial_ == nullptr; }
  [[nodiscard]] std::optional<int64_t> constant() const {
    return is_constant() ? std::optional(value_) : std::nullopt;
  }
  // The symbol, if the expression is just that; else null.
  [[nodiscard]] std::shared_ptr<const SymbolInfo> as_symbol() const;

  // Bounds over all values the symbols may take; not always the tightest ones.
  [[nodiscard]] int64_t lower_bound() const;
  [[nodiscard]] int64_t upper_bound() const;

  // The largest number known to divide every value; 0 for the constant zero, 1 for overflow.
  [[nodiscard]] int64_t known_divisor() const;
  [[nodiscard]] bool divisible_by(int64_t divisor) const;

  // Fails on a symbol that is unbound or bound outside its range, a division by zero or an
  // overflow.
  [[nodiscard]] Expected<int64_t> evaluate(const Bindings& bindings) const;

  // Every symbol named in `replacements` replaced. A replacement must satisfy the symbol's
  // constraints; where divisibility by d is not known it is taken for granted (x becomes
  // d*floor_div(x, d)).
  [[nodiscard]] Dim substitute(const std::map<std::string, Dim, std::less<>>& replacements) const;
  // Symbols replaced by their values, where they have one.
  [[nodiscard]] Dim substitute(const Bindings& bindings) const;

  // Adds the symbols of this expression to `symbols`, keeping it sorted by name and unique.
  void collect_symbols(std::vector<std::shared_ptr<const SymbolInfo>>& symbols) const;

  // "2*s + 1", "floor_div(s, 4)", "mod(s, 8)", "min(a, b)"; the highest degree first.
  [[nodiscard]] std::string to_string() const;

  [[nodiscard]] size_t hash() const;

  // Equality of canonical forms, and so of values whatever the symbols are. The converse does not
  // always hold: unequal forms may have equal values.
  friend bool operator==(const Dim& a, const Dim& b);

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a);
  Dim& operator+=(const Dim& other) { return *this = *this + other; }
  Dim& operator-=(const Dim& other) { return *this = *this - other; }
  Dim& operator*=(const Dim& other) { return *this = *this * other; }

  // For the files of this class: the canonical polynomial; null for a constant and for overflow.
  [[nodiscard]] const dim_detail::Polynomial* polynomial() const { return polynomial_.get(); }
  static Dim from_polynomial(std::shared_ptr<const dim_detail::Polynomial> polynomial);

 private:
  int64_t value_ = 0;  // meaningful if this is a constant
  bool overflow_ = false;
  std::shared_ptr<const dim_detail::Polynomial> polynomial_;
};

Dim floor_div(const Dim& a, const Dim& b);
Dim ceil_div(const Dim& a, const Dim& b);  // floor_div(a + b - 1, b); wants b > 0
Dim mod(const Dim& a, const Dim& b);
Dim min(const Dim& a, const Dim& b);
Dim max(const Dim& a, const Dim& b);
Dim round_up(const Dim& a, const Dim& multiple);  // ceil_div(a, multiple) * multiple

// True only if it holds for all values of the symbols; false means "not known".
bool provably_le(const Dim& a, const Dim& b);
bool provably_lt(const Dim& a, const Dim& b);

std::ostream& operator<<(std::ostream& stream, const Dim& dim);

// A strict weak order by form, for sorting and sets; it says nothing about values.
bool structural_less(const Dim& a, const Dim& b);

}  // namespace opweld

template <>
struct std::hash<opweld::Dim> {
  size_t operator()(const opweld::Dim& dim) const { return dim.hash(); }
};

template <>
struct fmt::formatter<opweld::Dim> : fmt::formatter<std::string> {
  template <typename Context>
  auto format(const opweld::Dim& dim, Context& context) const {
    return fmt::formatter<std::string>::format(dim.to_string(), context);
  }
};
