#include "support/whole_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace opweld {

namespace {

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace

Status write_whole(const std::string& path, std::initializer_list<std::string_view> parts) {
  return write_whole(path, std::span(parts.begin(), parts.size()));
}

Status write_whole(const std::string& path, std::span<const std::string_view> parts) {
  const auto failed = [&](const std::string& what) {
    const int why = errno;
    return fail("cannot write '{}': {}", what, std::strerror(why));
  };
  std::string temporary = path + ".XXXXXX";
  const int descriptor = mkstemp(temporary.data());
  if (descriptor < 0) return failed(temporary);
  constexpr mode_t kMode = 0644;  // as any file; mkstemp keeps it to its owner
  bool written = fchmod(descriptor, kMode) == 0;
  for (const std::string_view part : parts) written = written && write_all(descriptor, part);
  written = close(descriptor) == 0 && written;
  if (written && std::rename(temporary.c_str(), path.c_str()) == 0) return {};
  auto error = failed(path);
  unlink(temporary.c_str());
  return error;
}

}  // namespace opweld
