// Sizes of a graph's tensors: numbers, symbols, or expressions over them.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "opweld/export.h"

namespace opweld {

// One size, as its text: "384", "s", "2*s + 1", "floor_div(s, 4)", "mod(s, 8)", "min(s, t)",
// "max(s, 1)". A Size is only text until a builder reads it; what it cannot read is an error there.
// Division rounds down. A symbol whose name is no identifier stands in quotes: "\"batch size\"".
class OPWELD_API Size {
 public:
  template <std::integral Integer>
    requires(!std::same_as<Integer, bool>)
  Size(Integer value) : text_(std::to_string(value)) {
    if (std::in_range<std::int64_t>(value)) constant_ = static_cast<std::int64_t>(value);
  }
  Size(const char* expression) : text_(expression == nullptr ? "" : expression) {}
  Size(std::string expression) : text_(std::move(expression)) {}

  [[nodiscard]] const std::string& text() const { return text_; }
  // The number, where it was made of one.
  [[nodiscard]] std::optional<std::int64_t> constant() const { return constant_; }

  friend OPWELD_API Size operator+(const Size& a, const Size& b);
  friend OPWELD_API Size operator-(const Size& a, const Size& b);
  friend OPWELD_API Size operator*(const Size& a, const Size& b);
  friend OPWELD_API Size floor_div(const Size& a, const Size& b);

  // Of the text; sizes that a graph hands out are in a canonical form.
  friend bool operator==(const Size& a, const Size& b) { return a.text_ == b.text_; }

 private:
  std::string text_;
  std::optional<std::int64_t> constant_;
};

// Values of symbols by name: {{"batch", 1}, {"sequence", 128}}.
using SymbolValues = std::map<std::string, std::int64_t>;

}  // namespace opweld
