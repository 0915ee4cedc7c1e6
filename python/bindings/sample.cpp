#include <algorithm>
#include <cstdint>
#include <cstring>

#include "bindings.h"

namespace opweld::python {

namespace {

// A few words of each of many tensors, to see whether somebody wrote into them: not every write is
// seen, but one that changes most of a tensor is, for far less than reading all of it.
class MemorySample {
 public:
  MemorySample(const nb::list& addresses, const nb::list& bytes) {
    for (std::size_t i = 0; i < nb::len(addresses); ++i) {
      regions_.push_back({nb::cast<std::uintptr_t>(addresses[i]), nb::cast<std::size_t>(bytes[i])});
    }
  }

  // The memory must still be there.
  [[nodiscard]] std::uint64_t value() const {
    std::uint64_t hash = kStart;
    for (const Region& region : regions_) hash = add(hash, region);
    return hash;
  }

 private:
  struct Region {
    std::uintptr_t address;
    std::size_t bytes;
  };

  // FNV-1a (Fowler, Noll, Vo), a word at a time.
  static constexpr std::uint64_t kStart = 0xcbf29ce484222325;
  static constexpr std::uint64_t kPrime = 0x100000001b3;
  static constexpr std::size_t kWords = 8;

  static std::uint64_t add(std::uint64_t hash, const Region& region) {
    const std::size_t words = region.bytes / sizeof(std::uint64_t);
    if (words == 0) return add_word(hash, region.address, region.bytes);
    const std::size_t count = std::min(words, kWords);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = count == 1 ? 0 : i * (words - 1) / (count - 1);
      hash = add_word(hash, region.address + at * sizeof(std::uint64_t), sizeof(std::uint64_t));
    }
    return hash;
  }

  static std::uint64_t add_word(std::uint64_t hash, std::uintptr_t address, std::size_t bytes) {
    std::uint64_t word = 0;
    if (bytes > 0) std::memcpy(&word, reinterpret_cast<const void*>(address), bytes);
    return (hash ^ word) * kPrime;
  }

  std::vector<Region> regions_;
};

}  // namespace

void bind_sample(nb::module_& module) {
  nb::class_<MemorySample>(module, "MemorySample",
                           "Eight words of each of many pieces of memory, hashed: tells most "
                           "writes\ninto them without reading all of it.")
      .def(nb::init<const nb::list&, const nb::list&>(), nb::arg("addresses"), nb::arg("bytes"),
           nb::sig("def __init__(self, addresses: list[int], bytes: list[int]) -> None"))
      .def("value", &MemorySample::value, "The hash of what is there now.");
}

}  // namespace opweld::python
