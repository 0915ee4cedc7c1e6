// A file's bytes as memory, without reading or copying them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "support/expected.h"

namespace opweld {

// Bytes that somebody keeps alive: a mapped file, or a copy of what the caller handed over.
struct SharedBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

// Maps a regular file read-only; the mapping lives as long as `owner`.
Expected<SharedBytes> map_file(const std::string& path);

// Owns a copy of `bytes`.
SharedBytes copy_bytes(std::span<const std::byte> bytes);

}  // namespace opweld
