// A linked image in memory, ready to be called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "support/expected.h"

namespace opweld::aot {

class CodeImage {
 public:
  // A copy of the image with the addresses of its imports behind it. No page is ever both written
  // to and run: the image can then be run and read, the slots read alone.
  static Expected<std::shared_ptr<const CodeImage>> load(std::span<const std::byte> image,
                                                         std::span<const std::string> imports);
  ~CodeImage();
  CodeImage(const CodeImage&) = delete;
  CodeImage& operator=(const CodeImage&) = delete;

  // `entry` is less than the bytes of the image.
  [[nodiscard]] const std::byte* address(std::uint64_t entry) const { return memory_ + entry; }

 private:
  CodeImage(std::byte* memory, std::size_t bytes) : memory_(memory), bytes_(bytes) {}

  std::byte* memory_;
  std::size_t bytes_;
};

}  // namespace opweld::aot
