// Formulas that plugins write: of elements (expressions) and of sizes (shape rules), as a tree.
//
// opweld/custom_op.h gives the grammar, which is one for both; what names and functions mean is up
// to who reads the tree. Operators become calls by name: a + b is add(a, b), c ? a : b select(c, a,
// b), a ++ b concat(a, b).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/expected.h"

namespace opweld {

struct Formula {
  enum class Kind : std::uint8_t {
    Integer,
    Real,
    Name,
    Call,     // `name` of `parts`
    List,     // [parts]
    Index,    // parts[0][parts[1]]
    Stretch,  // parts[0][from:to], which stand in parts behind it where they are there
  };

  Kind kind = Kind::Integer;
  std::size_t position = 0;  // in the text, for errors
  std::int64_t integer = 0;
  double real = 0;
  std::string name;
  std::vector<Formula> parts;
  bool has_from = false;  // Stretch
  bool has_to = false;
};

struct FormulaText {
  std::string text;
  std::vector<std::pair<std::string, Formula>> definitions;  // "name = value;"
  Formula result;

  // "line 1, column 7: message"
  [[nodiscard]] tl::unexpected<Error> error(const Formula& at, const std::string& message) const;
};

// Errors carry line and column.
Expected<FormulaText> parse_formula(std::string_view text);

}  // namespace opweld
