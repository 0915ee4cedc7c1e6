#include "support/memory_block.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <limits>

namespace opweld {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
// A block of half a huge page may take all of it: one page fault in the place of 256.
constexpr std::size_t kLarge = kHugePage / 2;
// A passing block of so many bytes wastes little on the last of its small pages.
constexpr std::size_t kMappedAlone = std::size_t{64} << 10;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::byte* align(std::byte* data, std::size_t unit) {
  const std::size_t misalignment = reinterpret_cast<std::uintptr_t>(data) % unit;
  return misalignment == 0 ? data : data + (unit - misalignment);
}

// Whole huge pages: more is mapped than is needed, and what lies around them is given back.
std::shared_ptr<std::byte> map_huge_pages(std::size_t bytes) {
  const std::size_t size = round_up(bytes, kHugePage);
  const std::size_t mapped = size + kHugePage;
  void* mapping =
      ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  std::byte* const begin = static_cast<std::byte*>(mapping);
  std::byte* const data = align(begin, kHugePage);
  const auto before = static_cast<std::size_t>(data - begin);
  if (before != 0) ::munmap(begin, before);
  if (before != kHugePage) ::munmap(data + size, kHugePage - before);
  // A hint: a system without huge pages serves the block all the same.
  ::madvise(data, size, MADV_HUGEPAGE);
  return {data, [size](std::byte* block) { ::munmap(block, size); }};
}

std::shared_ptr<std::byte> allocate_small(std::size_t bytes) {
  // calloc aligns to 16 bytes; of no bytes at all there is still a block, with an address.
  void* const block = std::calloc(bytes + kBlockAlignment, 1);
  if (block == nullptr) return nullptr;
  return {align(static_cast<std::byte*>(block), kBlockAlignment),
          [block](std::byte*) { std::free(block); }};
}

bool can_be_addressed(std::size_t bytes) {
  return bytes <= std::numeric_limits<std::size_t>::max() / 2;
}

}  // namespace

std::shared_ptr<std::byte> allocate_block(std::size_t bytes) {
  if (!can_be_addressed(bytes)) return nullptr;
  return bytes >= kLarge ? map_huge_pages(bytes) : allocate_small(bytes);
}

std::shared_ptr<std::byte> allocate_passing_block(std::size_t bytes) {
  if (!can_be_addressed(bytes)) return nullptr;
  // What lies in the heap goes back to the heap, which keeps it.
  if (bytes < kMappedAlone) return allocate_small(bytes);
  void* const mapping =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  return {static_cast<std::byte*>(mapping), [bytes](std::byte* block) { ::munmap(block, bytes); }};
}

}  // namespace opweld
