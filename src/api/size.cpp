#include "opweld/size.h"

#include <fmt/format.h>

#include <string_view>

namespace opweld {

namespace {

// Text grows with every operation; no size that anybody means is as long as this.
constexpr std::size_t kLongestText = 4096;

// Constants are added up by the parser, which watches for overflow.
Size combine(const Size& a, const Size& b, std::string_view format) {
  if (a.text().size() + b.text().size() > kLongestText) {
    return {fmt::format("[an expression of more than {} characters]", kLongestText)};
  }
  return {fmt::format(fmt::runtime(format), a.text(), b.text())};
}

}  // namespace

Size operator+(const Size& a, const Size& b) {
  return combine(a, b, "({}) + ({})");
}
Size operator-(const Size& a, const Size& b) {
  return combine(a, b, "({}) - ({})");
}
Size operator*(const Size& a, const Size& b) {
  return combine(a, b, "({}) * ({})");
}
Size floor_div(const Size& a, const Size& b) {
  return combine(a, b, "floor_div({}, {})");
}

}  // namespace opweld
