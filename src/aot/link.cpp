#include "aot/link.h"

#include <elf.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "aot/container.h"
#include "aot/imports.h"

namespace opweld::aot {

namespace {

constexpr std::uint64_t kSlotBytes = 8;
// jmp [rip + distance to the slot], padded with int3.
constexpr std::uint64_t kStubBytes = 8;
constexpr std::uint64_t kStubInstruction = 6;

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// An object file that may be anything.
class Object {
 public:
  explicit Object(std::string_view bytes) : bytes_(bytes) {}

  Status read() {
    OPWELD_TRY(header_, at<Elf64_Ehdr>(0));
    const bool is_elf = std::memcmp(header_.e_ident, ELFMAG, SELFMAG) == 0 &&
                        header_.e_ident[EI_CLASS] == ELFCLASS64 &&
                        header_.e_ident[EI_DATA] == ELFDATA2LSB;
    if (!is_elf || header_.e_type != ET_REL || header_.e_machine != EM_X86_64) {
      return fail("it is no relocatable ELF file for x86-64");
    }
    for (std::uint64_t i = 0; i < header_.e_shnum; ++i) {
      OPWELD_TRY(const auto section, at<Elf64_Shdr>(header_.e_shoff, i));
      sections_.push_back(section);
    }
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != SHT_SYMTAB) continue;
      OPWELD_TRY(symbols_, items<Elf64_Sym>(section));
      OPWELD_TRY(names_, contents(section.sh_link));
    }
    return {};
  }

  [[nodiscard]] const std::vector<Elf64_Shdr>& sections() const { return sections_; }
  [[nodiscard]] const std::vector<Elf64_Sym>& symbols() const { return symbols_; }

  [[nodiscard]] Expected<std::string_view> contents(std::size_t section) const {
    if (section >= sections_.size()) return fail("it speaks of a section that is not there");
    const Elf64_Shdr& header = sections_[section];
    if (header.sh_offset > bytes_.size() || header.sh_size > bytes_.size() - header.sh_offset) {
      return fail("a section does not lie within it");
    }
    return bytes_.substr(header.sh_offset, header.sh_size);
  }

  [[nodiscard]] Expected<std::string_view> name(const Elf64_Sym& symbol) const {
    if (symbol.st_name >= names_.size()) return fail("a symbol's name does not lie within it");
    const std::string_view rest = names_.substr(symbol.st_name);
    const std::size_t end = rest.find('\0');
    if (end == std::string_view::npos) return fail("a symbol's name does not end");
    return rest.substr(0, end);
  }

  template <typename Item>
  [[nodiscard]] Expected<std::vector<Item>> items(const Elf64_Shdr& section) const {
    OPWELD_TRY(const std::string_view text,
               contents(static_cast<std::size_t>(&section - sections_.data())));
    if (section.sh_entsize != sizeof(Item)) return fail("a table has entries of another size");
    std::vector<Item> list(text.size() / sizeof(Item));
    text.copy(reinterpret_cast<char*>(list.data()), list.size() * sizeof(Item));
    return list;
  }

 private:
  template <typename Item>
  [[nodiscard]] Expected<Item> at(std::uint64_t offset, std::uint64_t index = 0) const {
    const std::uint64_t before = index * sizeof(Item);
    if (offset > bytes_.size() || before + sizeof(Item) > bytes_.size() - offset) {
      return fail("it is cut short");
    }
    Item item;
    std::memcpy(&item, bytes_.data() + offset + before, sizeof item);
    return item;
  }

  std::string_view bytes_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Shdr> sections_;
  std::vector<Elf64_Sym> symbols_;
  std::string_view names_;
};

class Linker {
 public:
  // Places what is kept of the object behind what is there.
  Status place(const ObjectView& view) {
    Placed placed{Object(view.bytes), {}};
    OPWELD_CHECK(placed.object.read());
    const auto& sections = placed.object.sections();
    placed.places.resize(sections.size());
    for (std::size_t i = 0; i < sections.size(); ++i) {
      OPWELD_TRY(const bool kept, is_kept(sections[i]));
      if (!kept) continue;
      OPWELD_TRY(const std::string_view contents, placed.object.contents(i));
      const std::uint64_t alignment = std::max<std::uint64_t>(sections[i].sh_addralign, 1);
      if (!std::has_single_bit(alignment) || alignment > kPage) {
        return fail("a section wants to be aligned to {} bytes", alignment);
      }
      const std::uint64_t place = round_up(image_.bytes.size(), alignment);
      // Whatever runs off the end of a function stops there.
      constexpr char kBreakpoint = '\xcc';
      image_.bytes.resize(place, kBreakpoint);
      image_.bytes.append(contents);
      placed.places[i] = place;
    }
    OPWELD_CHECK(find_entry(view, placed));
    objects_.push_back(std::move(placed));
    return {};
  }

  Expected<Image> finish() {
    OPWELD_CHECK(find_imports());
    stubs_ = round_up(image_.bytes.size(), kStubBytes);
    image_.bytes.resize(stubs_ + image_.imports.size() * kStubBytes, '\xcc');
    slots_ = round_up(image_.bytes.size(), kPage);
    for (std::size_t i = 0; i < image_.imports.size(); ++i) OPWELD_CHECK(write_stub(i));
    for (const Placed& placed : objects_) {
      OPWELD_CHECK(for_each_relocation(placed, [&](std::size_t section, const Elf64_Rela& each) {
        return relocate(placed, section, each);
      }));
    }
    return std::move(image_);
  }

 private:
  struct Placed {
    Object object;
    std::vector<std::optional<std::uint64_t>> places;  // by section; absent: left out
  };

  static Expected<bool> is_kept(const Elf64_Shdr& section) {
    if ((section.sh_flags & SHF_ALLOC) == 0 || section.sh_size == 0) return false;
    // How to unwind the stack: nothing is thrown through a kernel.
    if (section.sh_type == SHT_X86_64_UNWIND || section.sh_type == SHT_NOTE) return false;
    if (section.sh_type != SHT_PROGBITS || (section.sh_flags & (SHF_WRITE | SHF_TLS)) != 0) {
      return fail("it has data that is written to");
    }
    return true;
  }

  Status find_entry(const ObjectView& view, const Placed& placed) {
    for (const Elf64_Sym& symbol : placed.object.symbols()) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
      OPWELD_TRY(const std::string_view name, placed.object.name(symbol));
      if (name != view.symbol) continue;
      OPWELD_TRY(const std::uint64_t entry, address_of(placed, symbol));
      if (entry >= image_.bytes.size()) return fail("function '{}' has no code", name);
      image_.entries.push_back(entry);
      return {};
    }
    return fail("it has no function '{}'", view.symbol);
  }

  // Where a symbol that the object defines lies in the image.
  static Expected<std::uint64_t> address_of(const Placed& placed, const Elf64_Sym& symbol) {
    if (symbol.st_shndx >= placed.places.size() || !placed.places[symbol.st_shndx]) {
      return fail("a symbol lies in a section that is left out");
    }
    return *placed.places[symbol.st_shndx] + symbol.st_value;
  }

  template <typename Visit>
  Status for_each_relocation(const Placed& placed, const Visit& visit) {
    for (const Elf64_Shdr& section : placed.object.sections()) {
      if (section.sh_type != SHT_RELA && section.sh_type != SHT_REL) continue;
      if (section.sh_info >= placed.places.size()) {
        return fail("it relocates a section that is not there");
      }
      if (!placed.places[section.sh_info]) continue;
      if (section.sh_type == SHT_REL) return fail("it has relocations without addends");
      OPWELD_TRY(const auto relocations, placed.object.items<Elf64_Rela>(section));
      for (const Elf64_Rela& each : relocations) OPWELD_CHECK(visit(section.sh_info, each));
    }
    return {};
  }

  static Expected<Elf64_Sym> symbol_of(const Placed& placed, const Elf64_Rela& relocation) {
    const auto& symbols = placed.object.symbols();
    const std::size_t index = ELF64_R_SYM(relocation.r_info);
    if (index >= symbols.size()) return fail("a relocation speaks of a symbol that is not there");
    return symbols[index];
  }

  // Every function that is called and not defined gets a slot.
  Status find_imports() {
    for (const Placed& placed : objects_) {
      OPWELD_CHECK(for_each_relocation(placed, [&](std::size_t, const Elf64_Rela& each) -> Status {
        OPWELD_TRY(const Elf64_Sym symbol, symbol_of(placed, each));
        if (symbol.st_shndx != SHN_UNDEF || ELF64_R_TYPE(each.r_info) == R_X86_64_NONE) return {};
        OPWELD_TRY(const std::string_view name, placed.object.name(symbol));
        if (find_import(name) == nullptr) {
          return fail("it calls '{}', which is no function that kernels may call", name);
        }
        if (slot_of_.try_emplace(std::string(name), image_.imports.size()).second) {
          image_.imports.emplace_back(name);
        }
        return {};
      }));
    }
    return {};
  }

  Status relocate(const Placed& placed, std::size_t section, const Elf64_Rela& relocation) {
    const std::uint32_t type = ELF64_R_TYPE(relocation.r_info);
    if (type == R_X86_64_NONE) return {};
    OPWELD_TRY(const Elf64_Sym symbol, symbol_of(placed, relocation));
    const bool is_import = symbol.st_shndx == SHN_UNDEF;
    std::uint64_t target = 0;
    if (!is_import) {
      OPWELD_TRY(target, address_of(placed, symbol));
    } else {
      OPWELD_TRY(const std::string_view name, placed.object.name(symbol));
      const std::size_t slot = slot_of_.find(name)->second;
      const bool by_address =
          type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX || type == R_X86_64_REX_GOTPCRELX;
      target = by_address ? slots_ + slot * kSlotBytes : stubs_ + slot * kStubBytes;
      if (!by_address && type != R_X86_64_PLT32) return refused(type);
    }
    const std::uint64_t bytes = placed.object.sections()[section].sh_size;
    const std::uint64_t place = *placed.places[section] + relocation.r_offset;
    const auto distance =
        static_cast<std::int64_t>(target + static_cast<std::uint64_t>(relocation.r_addend) - place);
    switch (type) {
      case R_X86_64_PC32:
      case R_X86_64_PLT32:
        return put<std::int32_t>(place, relocation.r_offset, bytes, distance);
      case R_X86_64_GOTPCREL:
      case R_X86_64_GOTPCRELX:
      case R_X86_64_REX_GOTPCRELX:
        if (!is_import) return refused(type);
        return put<std::int32_t>(place, relocation.r_offset, bytes, distance);
      case R_X86_64_PC64:
        return put<std::int64_t>(place, relocation.r_offset, bytes, distance);
      default:
        return refused(type);
    }
  }

  static tl::unexpected<Error> refused(std::uint32_t type) {
    return fail("it has a relocation of type {}, which code that lies anywhere cannot have", type);
  }

  template <typename Stored>
  Status put(std::uint64_t place, std::uint64_t offset, std::uint64_t bytes, std::int64_t value) {
    if (offset > bytes || sizeof(Stored) > bytes - offset) {
      return fail("it relocates bytes past the end of a section");
    }
    if (!std::in_range<Stored>(value)) return fail("its parts lie too far apart");
    const auto stored = static_cast<Stored>(value);
    std::memcpy(image_.bytes.data() + place, &stored, sizeof stored);
    return {};
  }

  Status write_stub(std::size_t slot) {
    const std::uint64_t place = stubs_ + slot * kStubBytes;
    const std::uint64_t distance = slots_ + slot * kSlotBytes - (place + kStubInstruction);
    if (!std::in_range<std::int32_t>(distance)) return fail("its parts lie too far apart");
    const auto stored = static_cast<std::int32_t>(distance);
    constexpr unsigned char kJump[] = {0xff, 0x25};
    std::memcpy(image_.bytes.data() + place, kJump, sizeof kJump);
    std::memcpy(image_.bytes.data() + place + sizeof kJump, &stored, sizeof stored);
    return {};
  }

  Image image_;
  std::vector<Placed> objects_;
  std::map<std::string, std::size_t, std::less<>> slot_of_;
  std::uint64_t stubs_ = 0;
  std::uint64_t slots_ = 0;
};

}  // namespace

Expected<Image> link_image(std::span<const ObjectView> objects) {
  Linker linker;
  for (const ObjectView& object : objects) {
    if (auto placed = linker.place(object); !placed) {
      return tl::unexpected(
          placed.error().with_context(fmt::format("object of '{}'", object.symbol)));
    }
  }
  return linker.finish();
}

}  // namespace opweld::aot
