#include "aot/container.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "support/digest.h"
#include "support/memory_block.h"

namespace opweld::aot {

namespace {

constexpr std::string_view kMagic = "OPWELD\r\n";
constexpr std::size_t kDigestBytes = 32;

struct Header {
  std::array<char, 8> magic;
  std::uint32_t format;
  std::uint32_t sections;
  std::uint64_t file_bytes;
  std::array<char, kDigestBytes> table_digest;
  std::uint64_t zero;
};
static_assert(sizeof(Header) == 64);

struct Entry {
  std::uint32_t section;
  std::uint32_t zero;
  std::uint64_t offset;
  std::uint64_t bytes;
  std::array<char, kDigestBytes> digest;
};
static_assert(sizeof(Entry) == 56);

using Table = std::array<Entry, kSections>;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint64_t alignment_of(Section section) {
  return section == Section::Weights ? kPage : kBlockAlignment;
}

tl::unexpected<Error> damaged(std::string_view what) {
  return fail(
      "the file is damaged: {} does not match its digest. Copy it again, or compile the "
      "model again",
      what);
}

Expected<Table> read_table(std::span<const std::byte> file, bool check_digest) {
  Header header;
  Table table;
  const std::string_view start = text_of(file.first(std::min(file.size(), kMagic.size())));
  if (start != kMagic) {
    return fail("it does not begin as a compiled model does; 'opweld compile' makes one");
  }
  if (file.size() < sizeof header + sizeof table) return fail("the file is cut short");
  std::memcpy(&header, file.data(), sizeof header);
  if (header.format != kFormat) {
    return fail(
        "it is of format {}, and this build of Opweld reads format {}: compile the model "
        "again with this version",
        header.format, kFormat);
  }
  if (header.file_bytes != file.size()) {
    return fail("the file has {} bytes and should have {}: it was cut short or added to",
                file.size(), header.file_bytes);
  }
  if (header.sections != kSections || header.zero != 0) return fail("its header makes no sense");
  std::memcpy(&table, file.data() + sizeof header, sizeof table);
  const std::string_view bytes = text_of(file.subspan(sizeof header, sizeof table));
  if (check_digest && digest(bytes) != std::string_view(header.table_digest.data(), kDigestBytes)) {
    return damaged("the table of sections");
  }
  return table;
}

bool matches(std::span<const std::byte> bytes, const Entry& entry) {
  return digest(text_of(bytes)) == std::string_view(entry.digest.data(), kDigestBytes);
}

void put(std::string& text, const void* from, std::size_t bytes) {
  text.append(static_cast<const char*>(from), bytes);
}

}  // namespace

std::string_view to_string(Section section) {
  constexpr std::array<std::string_view, kSections> kNames = {
      "record", "graph", "plans", "account", "verdicts", "code", "weights"};
  return kNames[static_cast<std::size_t>(section)];
}

std::string_view Sections::text(Section section) const {
  return text_of(bytes(section));
}

Expected<Sections> read_sections(std::span<const std::byte> file, bool check_digests) {
  OPWELD_TRY(const Table table, read_table(file, check_digests));
  Sections sections;
  for (std::size_t i = 0; i < kSections; ++i) {
    const Entry& entry = table[i];
    const auto section = static_cast<Section>(i);
    if (entry.section != i || entry.zero != 0) return fail("its table of sections makes no sense");
    if (entry.offset % alignment_of(section) != 0 || entry.offset > file.size() ||
        entry.bytes > file.size() - entry.offset) {
      return fail("section '{}' does not lie within the file", to_string(section));
    }
    sections.bytes_[i] = file.subspan(entry.offset, entry.bytes);
    if (!check_digests || section == Section::Weights) continue;
    if (!matches(sections.bytes_[i], entry)) {
      return damaged(fmt::format("section '{}'", to_string(section)));
    }
  }
  return sections;
}

Status check_digest(std::span<const std::byte> file, Section section) {
  OPWELD_TRY(const Sections sections, read_sections(file, false));
  OPWELD_TRY(const Table table, read_table(file, true));
  if (matches(sections.bytes(section), table[static_cast<std::size_t>(section)])) return {};
  return damaged(fmt::format("section '{}'", to_string(section)));
}

std::vector<std::string_view> join_sections(const std::array<Parts, kSections>& sections,
                                            std::string& kept) {
  Table table;
  std::uint64_t end = sizeof(Header) + sizeof(Table);
  for (std::size_t i = 0; i < kSections; ++i) {
    DigestOfParts digest;
    std::uint64_t bytes = 0;
    for (const std::string_view part : sections[i]) {
      digest.add(part);
      bytes += part.size();
    }
    const std::uint64_t alignment = alignment_of(static_cast<Section>(i));
    const std::uint64_t offset = (end + alignment - 1) / alignment * alignment;
    table[i] = {static_cast<std::uint32_t>(i), 0, offset, bytes, {}};
    std::ranges::copy(digest.text(), table[i].digest.begin());
    end = offset + bytes;
  }
  Header header{{}, kFormat, kSections, end, {}, 0};
  std::ranges::copy(kMagic, header.magic.begin());
  std::ranges::copy(
      digest(std::string_view(reinterpret_cast<const char*>(table.data()), sizeof table)),
      header.table_digest.begin());

  kept.clear();
  put(kept, &header, sizeof header);
  put(kept, table.data(), sizeof table);
  const std::uint64_t head = kept.size();
  kept.append(kPage, '\0');
  std::vector<std::string_view> file = {std::string_view(kept).substr(0, head)};
  const std::string_view zeros = std::string_view(kept).substr(head);
  std::uint64_t at = head;
  for (std::size_t i = 0; i < kSections; ++i) {
    file.push_back(zeros.substr(0, table[i].offset - at));
    file.insert(file.end(), sections[i].begin(), sections[i].end());
    at = table[i].offset + table[i].bytes;
  }
  return file;
}

}  // namespace opweld::aot
