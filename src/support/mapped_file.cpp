#include "support/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace opweld {
namespace {

// Closes a file descriptor at the end of a scope; a mapping outlives its descriptor.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

}  // namespace

Expected<SharedBytes> map_file(const std::string& path) {
  // Non-blocking, so that naming a pipe by mistake does not wait for a writer.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) return fail("{}: cannot be opened: {}", path, std::strerror(errno));
  struct stat status = {};
  if (fstat(file.number(), &status) != 0) {
    return fail("{}: cannot be examined: {}", path, std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) return fail("{}: is not a regular file", path);
  if (status.st_size == 0) return SharedBytes{};
  const auto size = static_cast<std::size_t>(status.st_size);
  void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (address == MAP_FAILED) {
    return fail("{}: cannot be mapped into memory: {}", path, std::strerror(errno));
  }
  const auto unmap = [size](const void* mapped) { munmap(const_cast<void*>(mapped), size); };
  return SharedBytes{{static_cast<const std::byte*>(address), size},
                     std::shared_ptr<const void>(address, unmap)};
}

SharedBytes copy_bytes(std::span<const std::byte> bytes) {
  auto copy = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  const std::span<const std::byte> view(*copy);
  return {view, std::move(copy)};
}

}  // namespace opweld
