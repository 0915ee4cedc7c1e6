#include "plugin/formula.h"

#include <cctype>
#include <charconv>
#include <span>

#include "graph/text_cursor.h"

namespace opweld {

namespace {

struct BinaryOperator {
  std::string_view symbol;
  std::string_view function;
};

// Loosest first; longer symbols before those that they begin with.
constexpr BinaryOperator kOr[] = {{"||", "or"}};
constexpr BinaryOperator kAnd[] = {{"&&", "and"}};
constexpr BinaryOperator kComparisons[] = {{"==", "eq"}, {"!=", "ne"}, {"<=", "le"},
                                           {">=", "ge"}, {"<", "lt"},  {">", "gt"}};
constexpr BinaryOperator kSums[] = {{"++", "concat"}, {"+", "add"}, {"-", "sub"}};
constexpr BinaryOperator kProducts[] = {{"*", "mul"}, {"/", "div"}, {"%", "mod"}};
constexpr std::span<const BinaryOperator> kLevels[] = {kOr, kAnd, kComparisons, kSums, kProducts};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), cursor_(text) {}

  Expected<FormulaText> parse() {
    FormulaText result;
    result.text = text_;
    for (;;) {
      TextCursor ahead = cursor_;
      const std::string_view name = ahead.take_identifier();
      const bool defines = !name.empty() && ahead.take('=') && ahead.peek() != '=';
      if (!defines) break;
      cursor_ = ahead;
      OPWELD_TRY(Formula value, formula());
      OPWELD_CHECK(cursor_.expect(';'));
      result.definitions.emplace_back(name, std::move(value));
    }
    OPWELD_TRY(result.result, formula());
    if (!cursor_.at_end()) {
      return cursor_.error("expected an operator or the end, found {}", cursor_.next_text());
    }
    return result;
  }

 private:
  // So deep may parentheses and operators be nested.
  static constexpr int kMaxDepth = 200;
  static constexpr std::size_t kMaxNodes = 2000;

  bool take_symbol(std::string_view symbol) {
    if (text_.substr(cursor_.position(), symbol.size()) != symbol) return false;
    cursor_.skip(symbol.size());
    return true;
  }

  Formula make(Formula::Kind kind, std::size_t position) {
    ++nodes_;
    Formula made;
    made.kind = kind;
    made.position = position;
    return made;
  }

  Formula call(std::string_view function, std::size_t position, std::vector<Formula> parts) {
    Formula made = make(Formula::Kind::Call, position);
    made.name = function;
    made.parts = std::move(parts);
    return made;
  }

  Expected<Formula> formula() {
    if (++depth_ > kMaxDepth) return cursor_.error("the formula is nested too deep");
    if (nodes_ > kMaxNodes) return cursor_.error("the formula is too long");
    auto result = ternary();
    --depth_;
    return result;
  }

  Expected<Formula> ternary() {
    OPWELD_TRY(Formula condition, binary(0));
    const std::size_t start = cursor_.position();
    if (!cursor_.take('?')) return condition;
    OPWELD_TRY(Formula yes, formula());
    OPWELD_CHECK(cursor_.expect(':'));
    OPWELD_TRY(Formula no, formula());
    std::vector<Formula> parts;
    parts.push_back(std::move(condition));
    parts.push_back(std::move(yes));
    parts.push_back(std::move(no));
    return call("select", start, std::move(parts));
  }

  Expected<Formula> binary(std::size_t level) {
    if (level == std::size(kLevels)) return unary();
    OPWELD_TRY(Formula left, binary(level + 1));
    for (;;) {
      const std::size_t start = cursor_.position();
      const BinaryOperator* found = nullptr;
      for (const BinaryOperator& each : kLevels[level]) {
        if (!take_symbol(each.symbol)) continue;
        found = &each;
        break;
      }
      if (found == nullptr) return left;
      if (nodes_ > kMaxNodes) return cursor_.error("the formula is too long");
      OPWELD_TRY(Formula right, binary(level + 1));
      std::vector<Formula> parts;
      parts.push_back(std::move(left));
      parts.push_back(std::move(right));
      left = call(found->function, start, std::move(parts));
    }
  }

  Expected<Formula> unary() {
    const std::size_t start = cursor_.position();
    const bool negative = cursor_.take('-');
    if (!negative && !cursor_.take('!')) return postfix();
    if (++depth_ > kMaxDepth) return cursor_.error("the formula is nested too deep");
    OPWELD_TRY(Formula operand, unary());
    --depth_;
    std::vector<Formula> parts;
    parts.push_back(std::move(operand));
    return call(negative ? "neg" : "not", start, std::move(parts));
  }

  Expected<Formula> postfix() {
    OPWELD_TRY(Formula base, primary());
    for (;;) {
      const std::size_t start = cursor_.position();
      if (base.kind != Formula::Kind::Name || !cursor_.take('[')) return base;
      OPWELD_TRY(base, subscript(std::move(base), start));
    }
  }

  Expected<Formula> subscript(Formula base, std::size_t start) {
    std::optional<Formula> from;
    std::optional<Formula> to;
    if (cursor_.peek() != ':') {
      OPWELD_TRY(from, formula());
    }
    const bool stretch = cursor_.take(':');
    if (stretch && cursor_.peek() != ']') {
      OPWELD_TRY(to, formula());
    }
    OPWELD_CHECK(cursor_.expect(']'));
    Formula made = make(stretch ? Formula::Kind::Stretch : Formula::Kind::Index, start);
    made.has_from = from.has_value();
    made.has_to = to.has_value();
    made.parts.push_back(std::move(base));
    if (from) made.parts.push_back(std::move(*from));
    if (to) made.parts.push_back(std::move(*to));
    return made;
  }

  Expected<Formula> primary() {
    const std::size_t start = cursor_.position();
    const char first = cursor_.peek();
    if (cursor_.take('(')) {
      OPWELD_TRY(Formula inner, formula());
      OPWELD_CHECK(cursor_.expect(')'));
      return inner;
    }
    if (first == '[') {
      cursor_.take('[');
      Formula list = make(Formula::Kind::List, start);
      OPWELD_TRY(list.parts, values_until(']'));
      return list;
    }
    if (std::isdigit(static_cast<unsigned char>(first)) != 0 || first == '.') return number();
    const std::string_view name = cursor_.take_identifier();
    if (name.empty()) {
      return cursor_.error("expected a number, a name or '(', found {}", cursor_.next_text());
    }
    if (cursor_.take('(')) {
      OPWELD_TRY(std::vector<Formula> arguments, values_until(')'));
      return call(name, start, std::move(arguments));
    }
    Formula made = make(Formula::Kind::Name, start);
    made.name = name;
    return made;
  }

  Expected<std::vector<Formula>> values_until(char end) {
    std::vector<Formula> values;
    if (cursor_.take(end)) return values;
    do {
      OPWELD_TRY(Formula value, formula());
      values.push_back(std::move(value));
    } while (cursor_.take(','));
    OPWELD_CHECK(cursor_.expect(end));
    return values;
  }

  Expected<Formula> number() {
    const std::size_t start = cursor_.position();
    const char* const begin = text_.data() + start;
    const char* const end = text_.data() + text_.size();
    Formula made = make(Formula::Kind::Integer, start);
    auto [stop, code] = std::from_chars(begin, end, made.integer);
    const bool goes_on = stop != end && (*stop == '.' || *stop == 'e' || *stop == 'E');
    if (*begin == '.' || goes_on || code != std::errc()) {
      made.kind = Formula::Kind::Real;
      const auto real = std::from_chars(begin, end, made.real);
      stop = real.ptr;
      if (real.ec == std::errc::result_out_of_range || (code != std::errc() && !goes_on)) {
        return cursor_.error_at(start, "the number is out of range");
      }
      if (real.ec != std::errc()) return cursor_.error("expected a number");
    }
    cursor_.skip(static_cast<std::size_t>(stop - begin));
    return made;
  }

  std::string_view text_;
  TextCursor cursor_;
  int depth_ = 0;
  std::size_t nodes_ = 0;
};

}  // namespace

tl::unexpected<Error> FormulaText::error(const Formula& at, const std::string& message) const {
  return TextCursor(text).error_at(at.position, message);
}

Expected<FormulaText> parse_formula(std::string_view text) {
  return Parser(text).parse();
}

}  // namespace opweld
