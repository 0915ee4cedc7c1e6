// The outer form of an .opw file: a header, a table of sections, and the sections.
//
// All numbers are little-endian. The header:
//
//   8 bytes  "OPWELD\r\n", which transfers as text would damage
//   u32      the format's version, kFormat
//   u32      number of sections
//   u64      bytes of the whole file
//   32 bytes digest of the table (support/digest.h)
//   u64      zero
//
// The table, one entry of 56 bytes for each section: u32 which one, u32 zero, u64 offset, u64
// bytes, and its digest in 32 hexadecimal digits. Every section is there once. Offsets are
// multiples of a page, so that weights can be used where the file is mapped.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/expected.h"

namespace opweld::aot {

enum class Section : std::uint8_t {
  Record,   // JSON: all that is not one of the others (aot/record.h)
  Graph,    // the graph's text, constants by their place among the tensors of the record
  Plans,    // the plans' record (fusion/plan_record.h), without verdicts
  Account,  // JSON, what `opweld explain --json` tells at some sizes; may be empty
  // What that is told from at any sizes (report/account_record.h); may be empty. No run reads it.
  Verdicts,
  Code,     // a linked image (aot/link.h)
  Weights,  // the bytes of tensors, each at a multiple of 64
};
inline constexpr std::size_t kSections = 7;
std::string_view to_string(Section section);

// Goes up with every change of what a file says or of what kernels expect of those who call them. A
// file of another format is refused.
inline constexpr std::uint32_t kFormat = 3;
inline constexpr std::uint64_t kPage = 4096;

class Sections {
 public:
  [[nodiscard]] std::span<const std::byte> bytes(Section section) const {
    return bytes_[static_cast<std::size_t>(section)];
  }
  [[nodiscard]] std::string_view text(Section section) const;

 private:
  friend Expected<Sections> read_sections(std::span<const std::byte> file, bool check_digests);
  friend Status check_digest(std::span<const std::byte> file, Section section);
  std::array<std::span<const std::byte>, kSections> bytes_;
};

// The sections of a file, as parts of its bytes. Nothing is taken for granted: whatever the bytes
// are, the result is sections that lie within them, or an error. With `check_digests` those of all
// sections but the weights are compared, which reads them.
Expected<Sections> read_sections(std::span<const std::byte> file, bool check_digests = true);

// Compares the digest of one section of a file that read_sections() takes.
Status check_digest(std::span<const std::byte> file, Section section);

// A section to be written: parts that follow each other.
using Parts = std::vector<std::string_view>;

// What to write one after the other to make the file. `kept` holds header, table and padding; both
// it and the parts must stay as they are until the file is written.
std::vector<std::string_view> join_sections(const std::array<Parts, kSections>& sections,
                                            std::string& kept);

}  // namespace opweld::aot
