#include "support/disk_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "temporary_folder.h"

namespace opweld::testing {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_in(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& each : fs::recursive_directory_iterator(folder)) {
    if (each.is_regular_file()) files.push_back(each.path());
  }
  return files;
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

TEST(DiskCache, FindsWhatWasStoredUnderAKeyLast) {
  const TemporaryFolder folder;
  DiskCache cache(folder.path(), "1");
  EXPECT_FALSE(cache.find("key"));
  const std::string bytes("a\0b\xff", 4);
  EXPECT_TRUE(cache.store("key", bytes));
  EXPECT_TRUE(cache.store("empty", ""));
  EXPECT_EQ(cache.find("key"), bytes);
  EXPECT_EQ(cache.find("empty"), "");
  EXPECT_TRUE(cache.store("key", "other"));
  EXPECT_EQ(DiskCache(folder.path(), "1").find("key"), "other") << "another process";
}

TEST(DiskCache, TellsVersionsApart) {
  const TemporaryFolder folder;
  DiskCache(folder.path(), "1").store("key", "old");
  DiskCache next(folder.path(), "2");
  EXPECT_FALSE(next.find("key"));
  next.store("key", "new");
  EXPECT_EQ(DiskCache(folder.path(), "1").find("key"), "old");
  EXPECT_EQ(next.find("key"), "new");
}

TEST(DiskCache, ADamagedEntryIsNoneAndIsRemoved) {
  const std::string stored(1000, 'x');
  const auto damage = [&](const auto& change) {
    const TemporaryFolder folder;
    DiskCache cache(folder.path(), "1");
    cache.store("key", stored);
    const auto files = files_in(folder.path());
    ASSERT_EQ(files.size(), 1U);
    std::string content = content_of(files[0]);
    ASSERT_GT(content.size(), stored.size());
    change(content);
    write(files[0], content);
    EXPECT_FALSE(cache.find("key"));
    EXPECT_TRUE(files_in(folder.path()).empty());
    EXPECT_TRUE(cache.store("key", stored));
    EXPECT_EQ(cache.find("key"), stored);
  };
  for (const std::size_t left : {0U, 1U, 47U, 48U, 500U}) {
    SCOPED_TRACE(left);
    damage([&](std::string& content) { content.resize(left); });
  }
  for (const std::size_t at : {0U, 9U, 20U, 48U, 700U}) {
    SCOPED_TRACE(at);
    damage([&](std::string& content) { content[at] ^= 1; });
  }
  damage([](std::string& content) { content += "more"; });
  damage([](std::string& content) { content = std::string(content.size(), '\0'); });
}

TEST(DiskCache, RemovesWhatWasUsedLongestAgoOnceItIsFull) {
  const TemporaryFolder folder;
  constexpr std::int64_t kMost = 10000;
  DiskCache cache(folder.path(), "1", kMost);
  const std::string kilobyte(1000, 'x');
  for (int i = 0; i < 9; ++i) {
    cache.store(std::to_string(i), kilobyte);
    for (const fs::path& file : files_in(folder.path())) {
      fs::last_write_time(file, fs::last_write_time(file) - std::chrono::hours(2));
    }
  }
  EXPECT_TRUE(cache.find("0")) << "which counts as a use";
  for (int i = 9; i < 30; ++i) {
    cache.store(std::to_string(i), kilobyte);
    EXPECT_LE(cache.content().bytes, kMost);
    EXPECT_TRUE(cache.find(std::to_string(i))) << i;
  }
  EXPECT_FALSE(cache.find("1"));
  EXPECT_GT(cache.content().entries, 5);
}

TEST(DiskCache, AUseOfAnOldEntryKeepsIt) {
  const TemporaryFolder folder;
  constexpr std::int64_t kMost = 4000;
  DiskCache cache(folder.path(), "1", kMost);
  const std::string kilobyte(1000, 'x');
  for (const char* key : {"a", "b", "c"}) cache.store(key, kilobyte);
  for (const fs::path& file : files_in(folder.path())) {
    fs::last_write_time(file, fs::last_write_time(file) - std::chrono::hours(48));
  }
  ASSERT_TRUE(cache.find("b"));
  cache.store("d", kilobyte);  // passes the limit: half of the entries go
  EXPECT_TRUE(cache.find("b"));
  EXPECT_TRUE(cache.find("d"));
  EXPECT_FALSE(cache.find("a") && cache.find("c"));
}

TEST(DiskCache, CountsWhatOthersStoredAndLeftBehind) {
  const TemporaryFolder folder;
  write(fs::path(folder.path()) / "half-written.XXXXXX", std::string(5000, 'x'));
  constexpr std::int64_t kMost = 4000;
  DiskCache cache(folder.path(), "1", kMost);
  cache.store("key", "value");
  EXPECT_LE(cache.content().bytes, kMost);
}

// Whoever reads while others write sees a whole value of one of them.
TEST(DiskCache, ServesSeveralAtOnce) {
  const TemporaryFolder folder;
  constexpr int kRounds = 200;
  std::vector<std::thread> users;
  for (const char letter : {'a', 'b', 'c'}) {
    users.emplace_back([&folder, letter] {
      DiskCache cache(folder.path(), "1");
      const std::string mine(3000, letter);
      for (int i = 0; i < kRounds; ++i) {
        EXPECT_TRUE(cache.store("key", mine));
        const auto found = cache.find("key");
        ASSERT_TRUE(found);
        EXPECT_EQ(found->size(), mine.size());
        EXPECT_EQ(found->find_first_not_of(found->front()), std::string::npos);
      }
    });
  }
  for (std::thread& user : users) user.join();
  EXPECT_EQ(files_in(folder.path()).size(), 1U) << "nothing is left beside the entry";
}

TEST(DiskCache, AFolderThatCannotBeMadeStoresNothing) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/file";
  write(file, "no folder");
  DiskCache cache(file + "/below", "1");
  EXPECT_FALSE(cache.store("key", "value"));
  EXPECT_FALSE(cache.find("key"));
  EXPECT_EQ(cache.content().entries, 0);
}

}  // namespace
}  // namespace opweld::testing
