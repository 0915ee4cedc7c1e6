#include "graph/text_cursor.h"

#include <algorithm>
#include <charconv>

namespace opweld {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool in_identifier(char c) {
  return is_letter(c) || is_digit(c) || c == '.';
}
bool in_number(char c) {
  return in_identifier(c) || c == '+' || c == '-';
}

// A NaN that shows its bits is the only number with a colon.
constexpr std::string_view kNanBits = "nan:0x";

std::optional<int> hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

std::string in_quotes(std::string_view text, char quote) {
  std::string result(1, quote);
  for (const char c : text) {
    if (c == quote || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result + quote;
}

}  // namespace

void TextCursor::skip_space() {
  while (position_ < text_.size()) {
    if (text_[position_] == '#') {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else if (is_space(text_[position_])) {
      ++position_;
    } else {
      return;
    }
  }
}

std::size_t TextCursor::position() {
  skip_space();
  return position_;
}

bool TextCursor::at_end() {
  return position() == text_.size();
}

char TextCursor::peek() {
  return at_end() ? '\0' : text_[position_];
}

bool TextCursor::take(char wanted) {
  if (at_end() || text_[position_] != wanted) return false;
  ++position_;
  return true;
}

bool TextCursor::take_word(std::string_view wanted) {
  const std::size_t start = position();
  if (take_identifier() == wanted) return true;
  position_ = start;
  return false;
}

std::string_view TextCursor::take_identifier() {
  const std::size_t start = position();
  if (start == text_.size() || !is_letter(text_[start])) return {};
  while (position_ < text_.size() && in_identifier(text_[position_])) ++position_;
  return text_.substr(start, position_ - start);
}

std::string_view TextCursor::take_number_text() {
  const std::size_t start = position();
  if (text_.substr(start).starts_with(kNanBits)) position_ += kNanBits.size();
  while (position_ < text_.size() && in_number(text_[position_])) ++position_;
  return text_.substr(start, position_ - start);
}

std::string_view TextCursor::take_raw(std::string_view ends) {
  const std::size_t start = position();
  int nesting = 0;
  bool quote_open = false;
  for (; position_ < text_.size(); ++position_) {
    const char c = text_[position_];
    if (quote_open && c == '\\') {
      ++position_;
      continue;
    }
    if (!quote_open && nesting == 0 && ends.find(c) != std::string_view::npos) break;
    if (c == '"') quote_open = !quote_open;
    if (quote_open) continue;
    if (c == '(' || c == '[') ++nesting;
    if (c == ')' || c == ']') --nesting;
  }
  position_ = std::min(position_, text_.size());
  std::string_view raw = text_.substr(start, position_ - start);
  while (!raw.empty() && is_space(raw.back())) raw.remove_suffix(1);
  return raw;
}

Status TextCursor::expect(char wanted) {
  if (take(wanted)) return {};
  return error("expected '{}', found {}", wanted, next_text());
}

Status TextCursor::expect_word(std::string_view wanted) {
  if (take_word(wanted)) return {};
  return error("expected '{}', found {}", wanted, next_text());
}

Expected<std::string> TextCursor::string() {
  const std::size_t start = position();
  OPWELD_CHECK(expect('"'));
  std::string result;
  while (position_ < text_.size()) {
    const char c = text_[position_++];
    if (c == '"') return result;
    if (c != '\\') {
      result += c;
      continue;
    }
    const char escape = position_ < text_.size() ? text_[position_++] : '\0';
    if (escape == '"' || escape == '\\') {
      result += escape;
    } else if (escape == 'n') {
      result += '\n';
    } else if (escape == 't') {
      result += '\t';
    } else if (escape == 'x' && text_.size() - position_ >= 2 && hex_digit(text_[position_]) &&
               hex_digit(text_[position_ + 1])) {
      result +=
          static_cast<char>(*hex_digit(text_[position_]) * 16 + *hex_digit(text_[position_ + 1]));
      position_ += 2;
    } else {
      return error_at(position_ - 1, "unknown escape; known are \\\" \\\\ \\n \\t \\xHH");
    }
  }
  return error_at(start, "the quote is not closed");
}

Expected<std::int64_t> TextCursor::integer() {
  const std::size_t start = position();
  const std::string_view text = take_number_text();
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc::result_out_of_range) {
    return error_at(start, fmt::format("{} does not fit 64 bits", excerpt(text)));
  }
  if (code != std::errc() || end != text.data() + text.size()) {
    position_ = start;
    return error("expected an integer, found {}", next_text());
  }
  return value;
}

tl::unexpected<Error> TextCursor::error_at(std::size_t position, const std::string& message) const {
  const std::string_view before = text_.substr(0, position);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t line_start = before.rfind('\n');  // npos + 1 is 0, the start of the text
  return fail("line {}, column {}: {}", line, position - (line_start + 1) + 1, message);
}

std::string TextCursor::next_text() {
  if (at_end()) return "the end of the text";
  std::size_t end = position_;
  while (end < text_.size() && in_number(text_[end])) ++end;
  return excerpt(text_.substr(position_, std::max<std::size_t>(end - position_, 1)));
}

std::string quoted(std::string_view text) {
  return in_quotes(text, '"');
}

std::string excerpt(std::string_view text) {
  constexpr std::size_t kLimit = 60;
  return in_quotes(text.substr(0, kLimit), '\'') + (text.size() > kLimit ? "..." : "");
}

bool is_identifier(std::string_view text) {
  return !text.empty() && is_letter(text.front()) &&
         std::all_of(text.begin(), text.end(), in_identifier);
}

}  // namespace opweld
