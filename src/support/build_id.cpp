#include "support/build_id.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <string_view>

namespace opweld {

namespace {

std::size_t padded(std::size_t size) {
  return (size + 3) / 4 * 4;
}

// The build ID among notes that lie one after the other; empty if there is none.
std::string build_id_in(std::string_view notes) {
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes.data(), sizeof note);
    notes.remove_prefix(sizeof note);
    const std::size_t name_size = padded(note.n_namesz);
    const std::size_t content_size = padded(note.n_descsz);
    if (notes.size() < name_size + content_size) return {};
    const bool is_gnu = notes.substr(0, note.n_namesz) == std::string_view("GNU\0", 4);
    if (is_gnu && note.n_type == NT_GNU_BUILD_ID) {
      std::string id;
      for (const char byte : notes.substr(name_size, note.n_descsz)) {
        id += fmt::format("{:02x}", static_cast<unsigned char>(byte));
      }
      return id;
    }
    notes.remove_prefix(name_size + content_size);
  }
  return {};
}

struct Search {
  std::uintptr_t address;  // in the object that is looked for
  std::string id;
};

int look_at(dl_phdr_info* object, std::size_t /*size*/, void* data) {
  auto& search = *static_cast<Search*>(data);
  bool is_ours = false;
  std::string id;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    const std::uintptr_t begin = object->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD) {
      is_ours |= search.address >= begin && search.address - begin < part.p_memsz;
    }
    if (part.p_type == PT_NOTE && id.empty()) {
      id = build_id_in({reinterpret_cast<const char*>(begin), part.p_memsz});
    }
  }
  if (is_ours) search.id = id;
  return is_ours ? 1 : 0;  // 1: look no further
}

}  // namespace

std::string build_id() {
  Search search{reinterpret_cast<std::uintptr_t>(&build_id_in), {}};
  dl_iterate_phdr(look_at, &search);
  return search.id;
}

}  // namespace opweld
