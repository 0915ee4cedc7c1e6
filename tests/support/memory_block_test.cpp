// Blocks of memory, below and above the size from which they ask for huge pages.
#include "support/memory_block.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace opweld {
namespace {

constexpr std::size_t kMegabyte = std::size_t{1} << 20;

using Allocate = std::shared_ptr<std::byte> (*)(std::size_t);
constexpr Allocate kBoth[] = {allocate_block, allocate_passing_block};

TEST(MemoryBlock, IsAlignedZeroAndWritableToItsEnd) {
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{4096}, std::size_t{65536},
        std::size_t{65537}, kMegabyte - 1, kMegabyte, 2 * kMegabyte, 2 * kMegabyte + 1,
        5 * kMegabyte - 3}) {
    for (const Allocate allocate : kBoth) {
      SCOPED_TRACE(bytes);
      const auto block = allocate(bytes);
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.get()) % kBlockAlignment, 0U);
      std::byte* const end = block.get() + bytes;
      EXPECT_EQ(std::find_if(block.get(), end, [](std::byte b) { return b != std::byte{0}; }), end);
      std::memset(block.get(), 0xA5, bytes);
    }
  }
}

// What one owner wrote is not seen by the next, even where its memory comes back.
TEST(MemoryBlock, IsZeroAgainAfterUse) {
  for (const std::size_t bytes : {std::size_t{4096}, kMegabyte, 3 * kMegabyte}) {
    for (int round = 0; round < 8; ++round) {
      const auto block = kBoth[round % 2](bytes);
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(block.get()[0], std::byte{0});
      EXPECT_EQ(block.get()[bytes - 1], std::byte{0});
      std::memset(block.get(), 0xFF, bytes);
    }
  }
}

TEST(MemoryBlock, ThatCannotBeHadIsNull) {
  for (const Allocate allocate : kBoth) {
    EXPECT_EQ(allocate(std::numeric_limits<std::size_t>::max()), nullptr);
    EXPECT_EQ(allocate(std::numeric_limits<std::size_t>::max() / 2), nullptr);
  }
}

// Whether the mapping around `address` was told that huge pages are wanted: "hg" among its flags.
bool asks_for_huge_pages(const std::byte* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2) {
      inside = begin <= wanted && wanted < end;
    }
    if (inside && line.starts_with("VmFlags:")) return line.find(" hg") != std::string::npos;
  }
  return false;
}

// Asked of the system itself: a container may not show its settings below /sys.
bool system_has_huge_pages() {
  constexpr std::size_t kBytes = 4 * kMegabyte;
  void* const probe =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool has_them = probe != MAP_FAILED && ::madvise(probe, kBytes, MADV_HUGEPAGE) == 0;
  if (probe != MAP_FAILED) ::munmap(probe, kBytes);
  return has_them;
}

TEST(MemoryBlock, AsksForHugePagesWhereTheSystemHasThem) {
  const bool has_them = system_has_huge_pages();
  const auto large = allocate_block(3 * kMegabyte);
  EXPECT_EQ(asks_for_huge_pages(large.get()), has_them);
  EXPECT_EQ(asks_for_huge_pages(large.get() + 3 * kMegabyte - 1), has_them);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large.get()) % (2 * kMegabyte), 0U);
  EXPECT_FALSE(asks_for_huge_pages(allocate_block(4096).get()));
}

// Pages of the process that lie in memory.
std::size_t resident_bytes() {
  std::ifstream counts("/proc/self/statm");
  std::size_t all = 0;
  std::size_t resident = 0;
  counts >> all >> resident;
  return resident * 4096;
}

// As weights pass by: many at once, and nothing of them is left.
TEST(MemoryBlock, PassingTakesWhatItNeedsAndGivesItBack) {
  constexpr std::size_t kBlocks = 64;
  constexpr std::size_t kAll = kBlocks * kMegabyte;
  const std::size_t before = resident_bytes();
  std::vector<std::shared_ptr<std::byte>> blocks;
  for (std::size_t i = 0; i < kBlocks; ++i) {
    blocks.push_back(allocate_passing_block(kMegabyte));
    std::memset(blocks.back().get(), 1, kMegabyte);
  }
  EXPECT_LT(resident_bytes() - before, kAll + kAll / 8);
  for (std::size_t i = 0; i < kBlocks; i += 2) blocks[i].reset();
  EXPECT_LT(resident_bytes() - before, kAll / 2 + kAll / 8);
}

TEST(MemoryBlock, ManyLiveAtOnce) {
  std::vector<std::shared_ptr<std::byte>> blocks;
  for (int i = 0; i < 20; ++i) {
    blocks.push_back(allocate_block(kMegabyte + static_cast<std::size_t>(i) * 4096));
    ASSERT_NE(blocks.back(), nullptr);
    std::memset(blocks.back().get(), i + 1, kMegabyte);
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(blocks[static_cast<std::size_t>(i)].get()[kMegabyte - 1], std::byte(i + 1));
  }
}

}  // namespace
}  // namespace opweld
