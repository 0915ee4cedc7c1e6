// The file of measured block sizes: what is stored comes back, whatever else befalls the file.
#include "tune/tuning.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <random>
#include <thread>

#include "temporary_folder.h"

namespace opweld::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

const std::string kMachine = "this one";

const TunedChoice kTile{{.tile_rows = 12, .tile_vectors = 2}, 0.07, "s = 128"};
const TunedChoice kPanels{{.panels = 4}, 0.125, "s = 1"};
const TunedChoice kDefault{{}, 0, ""};

std::string file_of(const TemporaryFolder& folder) {
  return folder.path() + "/tuning.json";
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Tuning, WhatIsStoredComesBack) {
  const TemporaryFolder folder;
  EXPECT_THAT(load_tuning(folder.path(), kMachine), IsEmpty());
  const Tuning tuning = {{"a \"quoted\" class", kTile}, {"b", kPanels}, {"c", kDefault}};
  ASSERT_TRUE(store_tuning(folder.path(), kMachine, tuning));
  EXPECT_EQ(load_tuning(folder.path(), kMachine), tuning);
}

TEST(Tuning, TheFolderIsMade) {
  const TemporaryFolder folder;
  const std::string inner = folder.path() + "/not/yet";
  ASSERT_TRUE(store_tuning(inner, kMachine, {{"a", kTile}}));
  EXPECT_THAT(load_tuning(inner, kMachine), UnorderedElementsAre(Pair("a", kTile)));
}

TEST(Tuning, StoringAddsAndReplaces) {
  const TemporaryFolder folder;
  ASSERT_TRUE(store_tuning(folder.path(), kMachine, {{"a", kTile}, {"b", kTile}}));
  ASSERT_TRUE(store_tuning(folder.path(), kMachine, {{"b", kPanels}, {"c", kDefault}}));
  EXPECT_THAT(load_tuning(folder.path(), kMachine),
              UnorderedElementsAre(Pair("a", kTile), Pair("b", kPanels), Pair("c", kDefault)));
}

TEST(Tuning, MachinesAreKeptApart) {
  const TemporaryFolder folder;
  ASSERT_TRUE(store_tuning(folder.path(), kMachine, {{"a", kTile}}));
  ASSERT_TRUE(store_tuning(folder.path(), "another", {{"a", kPanels}}));
  EXPECT_THAT(load_tuning(folder.path(), kMachine), UnorderedElementsAre(Pair("a", kTile)));
  EXPECT_THAT(load_tuning(folder.path(), "another"), UnorderedElementsAre(Pair("a", kPanels)));
  EXPECT_THAT(load_tuning(folder.path(), "a third"), IsEmpty());
}

TEST(Tuning, NoFolderIsNoTuningAndAnErrorToStoreIn) {
  EXPECT_THAT(load_tuning("", kMachine), IsEmpty());
  const Status status = store_tuning("", kMachine, {{"a", kTile}});
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("OPWELD_CACHE_DIR"));
}

TEST(Tuning, AFolderThatCannotBeMadeIsAnError) {
  const TemporaryFolder folder;
  write(folder.path() + "/file", "");
  const Status status = store_tuning(folder.path() + "/file/inner", kMachine, {{"a", kTile}});
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("/file/inner"));
}

TEST(Tuning, DamagedAndForeignFilesAreReadAsNothingAndRebuilt) {
  const TemporaryFolder folder;
  ASSERT_TRUE(store_tuning(folder.path(), kMachine, {{"a", kTile}}));
  const std::string whole = read(file_of(folder));
  std::vector<std::string> texts = {"",
                                    "nonsense",
                                    "[]",
                                    "null",
                                    "{}",
                                    R"({"format": 2, "machines": {}})",
                                    R"({"format": 1})",
                                    R"({"format": 1, "machines": []})",
                                    R"({"format": "1", "machines": {"this one": {}}})",
                                    R"({"format": 1, "machines": {"this one": 7}})",
                                    std::string(1 << 20, '['),
                                    std::string(64, '\0'),
                                    "\xff\xfe" + whole};
  for (std::size_t length = 1; length + 3 < whole.size(); length += 7) {
    texts.push_back(whole.substr(0, length));
  }
  for (const std::string& text : texts) {
    SCOPED_TRACE(text.substr(0, 200));
    write(file_of(folder), text);
    EXPECT_THAT(load_tuning(folder.path(), kMachine), IsEmpty());
    ASSERT_TRUE(store_tuning(folder.path(), kMachine, {{"b", kPanels}}));
    EXPECT_THAT(load_tuning(folder.path(), kMachine), UnorderedElementsAre(Pair("b", kPanels)));
  }
}

TEST(Tuning, EntriesThatMakeNoSenseAreLeftOut) {
  const auto parsed = [](const std::string& entry) {
    return parse_tuning(
        R"({"format": 1, "machines": {"this one": {"a": )" + entry +
            R"(, "b": {"blocking": {"panels": 4}, "gain": 0.125, "sizes": "s = 1"}}}})",
        kMachine);
  };
  for (const std::string entry :
       {"1", "{}", "[]", "null", R"({"blocking": {}, "gain": 0})",
        R"({"blocking": {}, "sizes": ""})", R"({"blocking": 3, "gain": 0, "sizes": ""})",
        R"({"blocking": {}, "gain": "0", "sizes": ""})",
        R"({"blocking": {"rows": -1}, "gain": 0, "sizes": ""})",
        R"({"blocking": {"rows": 0}, "gain": 0, "sizes": ""})",
        R"({"blocking": {"rows": 1.5}, "gain": 0, "sizes": ""})",
        R"({"blocking": {"rows": "8"}, "gain": 0, "sizes": ""})",
        R"({"blocking": {"rows": 9223372036854775807}, "gain": 0, "sizes": ""})",
        R"({"blocking": {"rows": 18446744073709551615}, "gain": 0, "sizes": ""})",
        R"({"blocking": {"tile_rows": 4294967297}, "gain": 0, "sizes": ""})",
        R"({"blocking": {"rows": 8, "of another version": 1}, "gain": 0, "sizes": ""})"}) {
    EXPECT_THAT(parsed(entry), UnorderedElementsAre(Pair("b", kPanels))) << entry;
  }
  EXPECT_THAT(parsed(R"({"blocking": {}, "gain": 0, "sizes": ""})"),
              UnorderedElementsAre(Pair("a", kDefault), Pair("b", kPanels)));
}

TEST(Tuning, WhateverTheBytesAreOnlySizesThatCouldBeComeOut) {
  const TemporaryFolder folder;
  ASSERT_TRUE(store_tuning(folder.path(), kMachine, {{"a", kTile}, {"b", kPanels}}));
  const std::string whole = read(file_of(folder));
  std::mt19937 random(1);
  int kept = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    std::string text = whole;
    for (auto changes = random() % 4 + 1; changes > 0; --changes) {
      text[random() % text.size()] = static_cast<char>(random() % 256);
    }
    for (const auto& [name, choice] : parse_tuning(text, kMachine)) {
      ++kept;
      const tile::Blocking& blocking = choice.blocking;
      for (const std::int64_t size :
           {std::int64_t{blocking.tile_rows}, std::int64_t{blocking.tile_vectors}, blocking.depth,
            blocking.rows, blocking.panels, blocking.queries, blocking.key_block}) {
        ASSERT_GE(size, 0) << text;
        ASSERT_LE(size, 1 << 20) << text;
      }
      ASSERT_TRUE(std::isfinite(choice.gain)) << text;
    }
  }
  EXPECT_GT(kept, 0);
}

TEST(Tuning, WritersAtOnceLoseNothingAndReadersSeeWholeFiles) {
  const TemporaryFolder folder;
  constexpr int kWriters = 8;
  constexpr int kEach = 20;
  ASSERT_TRUE(store_tuning(folder.path(), kMachine, {{"first", kTile}}));
  std::vector<std::thread> threads;
  for (int writer = 0; writer < kWriters; ++writer) {
    threads.emplace_back([&folder, writer] {
      for (int i = 0; i < kEach; ++i) {
        const std::string name = fmt::format("{} of {}", i, writer);
        EXPECT_TRUE(store_tuning(folder.path(), kMachine, {{name, kPanels}}));
        // What was there is never gone, and so is what this writer has put there.
        const Tuning seen = load_tuning(folder.path(), kMachine);
        EXPECT_TRUE(seen.contains("first"));
        EXPECT_TRUE(seen.contains(name));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(load_tuning(folder.path(), kMachine).size(), 1U + kWriters * kEach);
  // No half-written file is left behind.
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names, UnorderedElementsAre("tuning.json", "tuning.json.lock"));
}

TEST(Tuning, MachineKeysTellWhatChoicesDependOn) {
  Target target;
  target.name = "host";
  target.model = "Some Processor";
  target.features = "+avx2";
  const std::string key = machine_key(target);
  EXPECT_THAT(key, HasSubstr("Some Processor"));
  const auto differs = [&](auto change) {
    Target other = target;
    change(other);
    return machine_key(other) != key;
  };
  EXPECT_FALSE(differs([](Target&) {}));
  EXPECT_TRUE(differs([](Target& other) { other.name = "host-avx2"; }));
  EXPECT_TRUE(differs([](Target& other) { other.model = "Another"; }));
  EXPECT_TRUE(differs([](Target& other) { other.features = "+avx2,+fma"; }));
  EXPECT_TRUE(differs([](Target& other) { other.l2_bytes *= 2; }));
  EXPECT_TRUE(differs([](Target& other) { other.cores = 64; }));
}

}  // namespace
}  // namespace opweld::testing
