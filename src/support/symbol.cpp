#include "support/symbol.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>

namespace opweld {
namespace {

// Far beyond any size, and small enough that bounds are computed without care.
constexpr int64_t kLimit = int64_t{1} << 62;

constexpr std::array<std::string_view, 6> kReservedNames = {"floor_div", "ceil_div", "mod",
                                                            "min",       "max",      "overflow"};

// Characters of names are classified as in the C locale, whatever the locale of the process.
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool is_identifier(std::string_view name) {
  if (name.empty() || !is_letter(name.front())) return false;
  const bool plain =
      std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c); });
  return plain &&
         std::find(kReservedNames.begin(), kReservedNames.end(), name) == kReservedNames.end();
}

// Reads "s in [1, 512] divisible 8" piece by piece from the front.
class SymbolReader {
 public:
  explicit SymbolReader(std::string_view text) : rest_(text) {}

  bool at_end() {
    skip_space();
    return rest_.empty();
  }

  bool take(std::string_view word) {
    skip_space();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  std::optional<std::string> name() {
    skip_space();
    if (take("\"")) return quoted();
    const auto end = std::find_if(rest_.begin(), rest_.end(),
                                  [](char c) { return !is_letter(c) && !is_digit(c); });
    std::string result(rest_.begin(), end);
    rest_.remove_prefix(result.size());
    if (!is_identifier(result)) return std::nullopt;
    return result;
  }

  std::optional<int64_t> integer() {
    skip_space();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) return std::nullopt;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }

 private:
  void skip_space() {
    while (!rest_.empty() && is_space(rest_.front())) rest_.remove_prefix(1);
  }

  std::optional<std::string> quoted() {
    std::string result;
    while (!rest_.empty()) {
      const char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '"') return result;
      if (c != '\\') {
        result += c;
        continue;
      }
      if (rest_.empty()) break;
      result += rest_.front() == 'n' ? '\n' : rest_.front();
      rest_.remove_prefix(1);
    }
    return std::nullopt;
  }

  std::string_view rest_;
};

}  // namespace

Status SymbolInfo::validate() const {
  if (name.empty()) return fail("a symbol must have a name");
  if (range.divisor < 1) {
    return fail("symbol '{}': the divisor must be at least 1, not {}", name, range.divisor);
  }
  if (range.min < -kLimit || range.max > kLimit || range.divisor > kLimit) {
    return fail("symbol '{}': the range must lie within +-2^62", name);
  }
  const int64_t remainder = range.max % range.divisor;
  const int64_t largest = range.max - (remainder < 0 ? remainder + range.divisor : remainder);
  if (range.min > range.max || largest < range.min) {
    return fail("symbol '{}': no value satisfies '{}'", name, to_string());
  }
  return {};
}

Status SymbolInfo::check(int64_t value) const {
  if (value < range.min || value > range.max) {
    return usage_error("{} = {} is outside its range [{}, {}]", symbol_reference(name), value,
                       range.min, range.max);
  }
  if (value % range.divisor != 0) {
    return usage_error("{} = {} is not divisible by {}", symbol_reference(name), value,
                       range.divisor);
  }
  return {};
}

std::string SymbolInfo::to_string() const {
  std::string text = fmt::format("{} in [{}, {}]", symbol_reference(name), range.min, range.max);
  if (range.divisor != 1) text += fmt::format(" divisible {}", range.divisor);
  return text;
}

Expected<SymbolInfo> SymbolInfo::parse(std::string_view text) {
  SymbolReader reader(text);
  const auto malformed = [&] {
    return fail("'{}' is no symbol; write for example 's in [1, 512] divisible 8'", text);
  };
  SymbolInfo info;
  auto name = reader.name();
  if (!name) return malformed();
  info.name = std::move(*name);
  if (reader.take("in")) {
    if (!reader.take("[")) return malformed();
    const auto low = reader.integer();
    if (!low || !reader.take(",")) return malformed();
    const auto high = reader.integer();
    if (!high || !reader.take("]")) return malformed();
    info.range.min = *low;
    info.range.max = *high;
  }
  if (reader.take("divisible")) {
    const auto divisor = reader.integer();
    if (!divisor) return malformed();
    info.range.divisor = *divisor;
  }
  if (!reader.at_end()) return malformed();
  OPWELD_CHECK(info.validate());
  return info;
}

std::string symbol_reference(std::string_view name) {
  if (is_identifier(name)) return std::string(name);
  std::string quoted = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n') {
      quoted += "\\n";
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

Status SymbolTable::add(SymbolInfo symbol) {
  OPWELD_CHECK(symbol.validate());
  if (const auto known = find(symbol.name)) {
    if (*known == symbol) return {};
    return fail("symbol '{}' is declared twice: '{}' and '{}'", symbol.name, known->to_string(),
                symbol.to_string());
  }
  std::string name = symbol.name;
  symbols_.emplace(std::move(name), std::make_shared<const SymbolInfo>(std::move(symbol)));
  return {};
}

std::shared_ptr<const SymbolInfo> SymbolTable::find(std::string_view name) const {
  const auto found = symbols_.find(name);
  return found == symbols_.end() ? nullptr : found->second;
}

Bindings::Bindings(std::initializer_list<std::pair<std::string, int64_t>> values) {
  for (const auto& [name, value] : values) set(name, value);
}

void Bindings::set(std::string_view name, int64_t value) {
  const auto place =
      std::lower_bound(values_.begin(), values_.end(), name,
                       [](const auto& entry, std::string_view key) { return entry.first < key; });
  if (place != values_.end() && place->first == name) {
    place->second = value;
  } else {
    values_.emplace(place, name, value);
  }
}

std::optional<int64_t> Bindings::find(std::string_view name) const {
  const auto place =
      std::lower_bound(values_.begin(), values_.end(), name,
                       [](const auto& entry, std::string_view key) { return entry.first < key; });
  if (place == values_.end() || place->first != name) return std::nullopt;
  return place->second;
}

}  // namespace opweld
