// Blocks that come back to those who ask for as much again.
#include "support/block_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

#include "support/memory_block.h"

namespace opweld {
namespace {

TEST(BlockPool, HandsOutAgainWhatWasLetGo) {
  BlockPool pool(2);
  auto first = pool.take(1000);
  std::byte* const place = first.get();
  EXPECT_NE(pool.take(1000).get(), place) << "while it is held";
  first.reset();
  const auto again = pool.take(1000);
  EXPECT_EQ(again.get(), place);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(place) % kBlockAlignment, 0U);
}

TEST(BlockPool, GivesAtLeastWhatIsAskedForAndAtMostTwice) {
  BlockPool pool(4);
  std::byte* const place = pool.take(4096).get();
  const auto larger = pool.take(4097);
  const auto smaller = pool.take(2047);
  EXPECT_NE(larger.get(), place);
  EXPECT_NE(smaller.get(), place);
  EXPECT_EQ(pool.take(2048).get(), place);
  // It has not become smaller by that.
  EXPECT_EQ(pool.take(4096).get(), place);
}

TEST(BlockPool, KeepsTheLatestAndNoMore) {
  BlockPool pool(2);
  std::vector<std::shared_ptr<std::byte>> held;
  for (const std::size_t bytes : {100000, 10000, 1000}) held.push_back(pool.take(bytes));
  std::byte* const second = held[1].get();
  std::byte* const third = held[2].get();
  const std::weak_ptr<std::byte> first = held[0];
  for (auto& block : held) block.reset();
  EXPECT_TRUE(first.expired());
  EXPECT_EQ(pool.take(10000).get(), second);
  EXPECT_EQ(pool.take(1000).get(), third);
}

TEST(BlockPool, ServesEmptyBlocksAndRefusesWhatCannotBeHad) {
  BlockPool pool(1);
  EXPECT_NE(pool.take(0), nullptr);
  EXPECT_EQ(pool.take(std::numeric_limits<std::size_t>::max()), nullptr);
}

TEST(BlockPool, IsOutlivedByItsBlocks) {
  std::optional<BlockPool> pool(std::in_place, 1);
  const auto block = pool->take(3 << 20);
  pool.reset();
  std::memset(block.get(), 1, 3 << 20);
}

TEST(BlockPool, ServesThreadsAtOnce) {
  BlockPool pool(3);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&pool, thread] {
      for (int round = 0; round < 2000; ++round) {
        const auto block = pool.take(256);
        std::memset(block.get(), thread, 256);
        // Nobody else has it.
        for (int i = 0; i < 256; ++i) ASSERT_EQ(block.get()[i], std::byte(thread));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace opweld
