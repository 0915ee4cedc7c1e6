// Named unknown sizes (batch, sequence length, ...) and what is known about them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/expected.h"

namespace opweld {

// The values a symbol may take: the multiples of `divisor` in [min, max].
struct SymbolRange {
  int64_t min = 0;
  int64_t max = int64_t{1} << 40;
  int64_t divisor = 1;

  friend bool operator==(const SymbolRange&, const SymbolRange&) = default;
};

// Two symbols are the same exactly if their names are equal; their ranges must then agree.
struct SymbolInfo {
  std::string name;
  SymbolRange range;

  // Whether this description makes sense: a name, divisor >= 1, and at least one possible value.
  [[nodiscard]] Status validate() const;

  // Whether `value` is one the symbol may take; a usage error that says why not.
  [[nodiscard]] Status check(int64_t value) const;

  // "s in [1, 512] divisible 8"; the last part only where the divisor is not 1.
  [[nodiscard]] std::string to_string() const;

  // The inverse of to_string(). A name alone means the default range.
  static Expected<SymbolInfo> parse(std::string_view text);

  friend bool operator==(const SymbolInfo&, const SymbolInfo&) = default;
};

// A symbol's name as it stands in an expression: bare if it is an identifier, else in quotes.
std::string symbol_reference(std::string_view name);

// The symbols a text may mention, by name.
class SymbolTable {
 public:
  // Fails if the description is invalid or contradicts an earlier one of the same name.
  Status add(SymbolInfo symbol);

  // Null if there is no such symbol.
  [[nodiscard]] std::shared_ptr<const SymbolInfo> find(std::string_view name) const;

  [[nodiscard]] size_t size() const { return symbols_.size(); }
  [[nodiscard]] auto begin() const { return symbols_.begin(); }
  [[nodiscard]] auto end() const { return symbols_.end(); }

 private:
  std::map<std::string, std::shared_ptr<const SymbolInfo>, std::less<>> symbols_;
};

// Values given to symbols, sorted by name. There are a handful at most, hence a flat vector.
class Bindings {
 public:
  Bindings() = default;
  Bindings(std::initializer_list<std::pair<std::string, int64_t>> values);

  // A later value of the same name replaces the earlier one.
  void set(std::string_view name, int64_t value);
  [[nodiscard]] std::optional<int64_t> find(std::string_view name) const;

  [[nodiscard]] bool empty() const { return values_.empty(); }
  [[nodiscard]] size_t size() const { return values_.size(); }
  [[nodiscard]] auto begin() const { return values_.begin(); }
  [[nodiscard]] auto end() const { return values_.end(); }

  friend bool operator==(const Bindings&, const Bindings&) = default;

 private:
  std::vector<std::pair<std::string, int64_t>> values_;
};

}  // namespace opweld
