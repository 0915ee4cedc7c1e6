// Object files of kernels, linked to one position-independent image.
//
// An image is code and its constants, which are read and run wherever they lie, and nothing that is
// written. What refers to itself is resolved here; what it calls of the C library it calls through
// slots of eight bytes that follow the image in memory, at its size rounded up to a page: whoever
// loads it writes addresses there, and has nothing else to relocate.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/expected.h"

namespace opweld::aot {

// A relocatable ELF file for x86-64 as LLVM writes it, and a function of it.
struct ObjectView {
  std::string_view symbol;
  std::string_view bytes;
};

struct Image {
  std::string bytes;
  std::vector<std::uint64_t> entries;  // by object: where its function begins
  std::vector<std::string> imports;    // by slot
};

// Fails on whatever an image cannot be: data that is written to, relocations other than those
// between code and constants or to functions of aot/imports.h, a symbol that is missing. Any bytes
// may be given.
Expected<Image> link_image(std::span<const ObjectView> objects);

}  // namespace opweld::aot
