// A place in a text that is being parsed: the lexical part of the textual form.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

#include "support/expected.h"

namespace opweld {

class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}

  // All of these skip white space and comments first.
  [[nodiscard]] bool at_end();
  [[nodiscard]] char peek();                // '\0' at the end
  bool take(char wanted);                   // true if it was there
  bool take_word(std::string_view wanted);  // a whole word, not a prefix of a longer one
  // An identifier (letters, digits, '_' and '.'; no digit first); empty if there is none.
  std::string_view take_identifier();
  // The longest run of characters that numbers are made of: "-1e-05", "nan:0xffc00000".
  std::string_view take_number_text();
  // What stands before the first of `ends` that is outside of quotes and parentheses, without
  // surrounding space. The end stays.
  std::string_view take_raw(std::string_view ends);

  // Moves on by so many characters, which the caller has read by itself.
  void skip(std::size_t count) { position_ += count; }

  Status expect(char wanted);
  Status expect_word(std::string_view wanted);
  // "..." with the escapes \" \\ \n \t \xHH.
  Expected<std::string> string();
  // An integer of 64 bits.
  Expected<std::int64_t> integer();

  // Offset of the next thing to read, for errors that are found later.
  [[nodiscard]] std::size_t position();

  template <typename... Args>
  [[nodiscard]] tl::unexpected<Error> error(fmt::format_string<Args...> format, Args&&... args) {
    return error_at(position(), fmt::format(format, std::forward<Args>(args)...));
  }
  // "line 3, column 7: message"
  [[nodiscard]] tl::unexpected<Error> error_at(std::size_t position,
                                               const std::string& message) const;
  // What comes next, for messages: "'foo'", "the end of the text".
  [[nodiscard]] std::string next_text();

 private:
  void skip_space();

  std::string_view text_;
  std::size_t position_ = 0;
};

// `text` as a string of the textual form, with quotes and escapes.
std::string quoted(std::string_view text);
// The same for messages: at most 60 characters of it.
std::string excerpt(std::string_view text);

bool is_identifier(std::string_view text);

}  // namespace opweld
