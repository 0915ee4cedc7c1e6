// Short names for long texts.
#pragma once

#include <string>
#include <string_view>

namespace opweld {

// XXH3 of 128 bits (github.com/Cyan4973/xxHash), as 32 hexadecimal digits: the same in every
// process and version. Not for texts that somebody may choose so that two of them meet.
std::string digest(std::string_view text);

// The same of a text that comes in parts.
class DigestOfParts {
 public:
  DigestOfParts();
  ~DigestOfParts();
  DigestOfParts(const DigestOfParts&) = delete;
  DigestOfParts& operator=(const DigestOfParts&) = delete;

  void add(std::string_view part);
  [[nodiscard]] std::string text() const;

 private:
  void* state_;
};

}  // namespace opweld
