// Text as a Dim.
#include <charconv>
#include <string>

#include "support/dim.h"

namespace opweld {

namespace {

// sum     := product (("+" | "-") product)*
// product := factor ("*" factor)*
// factor  := "-" factor | primary ("^" integer)?
// primary := integer | symbol | "quoted symbol" | function "(" sum ("," sum)* ")" | "(" sum ")"
class DimParser {
 public:
  DimParser(std::string_view text, const SymbolTable& symbols) : text_(text), symbols_(symbols) {}

  Expected<Dim> parse() {
    OPWELD_TRY(Dim result, sum());
    peek();
    if (position_ < text_.size()) return error("unexpected text");
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

  // The minus applies after the power: -s^2 is -(s^2). It is read together with a plain number, as
  // the least integer has no positive counterpart.
  Expected<Dim> factor() {
    bool negative = false;
    while (take('-')) negative = !negative;
    const bool is_number = peek() >= '0' && peek() <= '9';
    OPWELD_TRY(const Dim base, is_number ? number(negative) : primary());
    const bool is_signed = is_number && negative;
    if (!take('^')) return negative && !is_signed ? -base : base;
    OPWELD_TRY(const int64_t power, integer(false));
    if (power < 1 || power > kMaxPower) return error("a power must be between 1 and 64");
    const Dim unsigned_base = is_signed ? -base : base;
    Dim result = unsigned_base;
    for (int64_t i = 1; i < power; ++i) result *= unsigned_base;
    return negative ? -result : result;
  }

  Expected<Dim> number(bool negative) {
    return integer(negative).map([](int64_t value) { return Dim(value); });
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

  Expected<Dim> primary() {
    if (take('(')) {
      OPWELD_TRY(Dim result, sum());
      if (!take(')')) return error("expected ')'");
      return result;
    }
    OPWELD_TRY(const std::string word, name());
    const bool is_call = !was_quoted_ && take('(');
    return is_call ? function(word) : symbol(word);
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
