#include "aot/code_image.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "aot/container.h"
#include "aot/imports.h"

namespace opweld::aot {

Expected<std::shared_ptr<const CodeImage>> CodeImage::load(std::span<const std::byte> image,
                                                           std::span<const std::string> imports) {
  const std::size_t code = (image.size() + kPage - 1) / kPage * kPage;
  const std::size_t slots = (imports.size() * sizeof(void*) + kPage - 1) / kPage * kPage;
  if (code + slots == 0) return fail("it has no code");
  void* const mapped =
      mmap(nullptr, code + slots, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return fail("no memory for its code: {}", std::strerror(errno));
  auto* const memory = static_cast<std::byte*>(mapped);
  std::shared_ptr<const CodeImage> loaded(new CodeImage(memory, code + slots));

  if (!image.empty()) std::memcpy(memory, image.data(), image.size());
  for (std::size_t i = 0; i < imports.size(); ++i) {
    const void* const address = find_import(imports[i]);
    if (address == nullptr) return fail("it calls '{}', which is not to be called", imports[i]);
    std::memcpy(memory + code + i * sizeof address, static_cast<const void*>(&address),
                sizeof address);
  }
  const bool is_protected = (code == 0 || mprotect(memory, code, PROT_READ | PROT_EXEC) == 0) &&
                            (slots == 0 || mprotect(memory + code, slots, PROT_READ) == 0);
  if (!is_protected) {
    return fail("the system does not let its code be run: {}", std::strerror(errno));
  }
  return loaded;
}

CodeImage::~CodeImage() {
  munmap(memory_, bytes_);
}

}  // namespace opweld::aot
