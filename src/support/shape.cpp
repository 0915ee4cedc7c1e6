#include "support/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace opweld {
namespace {

// Cuts "a, min(b, c), d" at the commas outside of parentheses and quotes.
std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  int nesting = 0;
  bool quoted = false;
  size_t start = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '(' || c == ')')) {
      nesting += c == '(' ? 1 : -1;
    } else if (!quoted && nesting == 0 && c == ',') {
      parts.push_back(text.substr(start, i - start));
      start = i + 1;
    }
  }
  parts.push_back(text.substr(start));
  return parts;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

}  // namespace

Dim num_elements(const Shape& shape) {
  // A size of 0 makes the product 0, even if the others alone would be too large.
  if (!has_overflow(shape) && std::find(shape.begin(), shape.end(), Dim(0)) != shape.end()) {
    return 0;
  }
  return std::accumulate(shape.begin(), shape.end(), Dim(1),
                         [](const Dim& a, const Dim& b) { return a * b; });
}

std::vector<Dim> row_major_strides(const Shape& shape) {
  std::vector<Dim> strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Expected<Shape> parse_shape(std::string_view text, const SymbolTable& symbols) {
  const std::string_view trimmed = trim(text);
  if (trimmed.size() < 2 || trimmed.front() != '[' || trimmed.back() != ']') {
    return fail("'{}' is no shape; write for example '[b, s, 384]'", text);
  }
  const std::string_view inner = trim(trimmed.substr(1, trimmed.size() - 2));
  Shape shape;
  if (inner.empty()) return shape;
  for (const std::string_view part : split_at_commas(inner)) {
    OPWELD_TRY(Dim size, Dim::parse(trim(part), symbols));
    shape.push_back(std::move(size));
  }
  return shape;
}

bool has_overflow(const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](const Dim& d) { return d.is_overflow(); });
}

Expected<std::vector<int64_t>> evaluate(const Shape& shape, const Bindings& bindings) {
  std::vector<int64_t> sizes;
  sizes.reserve(shape.size());
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const auto size = shape[axis].evaluate(bindings);
    if (!size) {
      return tl::unexpected(
          size.error().with_context(fmt::format("axis {} of {}", axis, to_string(shape))));
    }
    sizes.push_back(*size);
  }
  return sizes;
}

Shape substitute(const Shape& shape, const Bindings& bindings) {
  Shape result;
  result.reserve(shape.size());
  for (const Dim& size : shape) result.push_back(size.substitute(bindings));
  return result;
}

}  // namespace opweld
