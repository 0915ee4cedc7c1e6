#include "support/pointer_map.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

namespace opweld {
namespace {

TEST(PointerMap, HasNothingAtFirst) {
  PointerMap<int, int> map;
  const int key = 0;
  EXPECT_EQ(map.size(), 0U);
  EXPECT_EQ(map.find(&key), nullptr);
  EXPECT_FALSE(map.contains(&key));
}

TEST(PointerMap, MakesADefaultWhereItIsAskedForOne) {
  PointerMap<int, std::string> map;
  const int key = 0;
  EXPECT_EQ(map[&key], "");
  map[&key] = "one";
  EXPECT_EQ(map.at(&key), "one");
  EXPECT_EQ(map.size(), 1U);
}

// Addresses side by side, far apart and equal in their lowest bits, as many as make it grow.
TEST(PointerMap, HoldsWhatAStandardMapHolds) {
  const std::vector<char> places(1 << 20);
  for (const std::size_t step : {1, 8, 64, 4096}) {
    std::mt19937 random(static_cast<unsigned>(step));
    PointerMap<char, std::unique_ptr<int>> map;
    std::unordered_map<const char*, int> expected;
    for (int i = 0; i < 2000; ++i) {
      const char* const key = &places[random() % 400 * step % places.size()];
      if (random() % 2 == 0) {
        map[key] = std::make_unique<int>(i);
        expected[key] = i;
      }
      ASSERT_EQ(map.size(), expected.size());
      const auto* const found = map.find(key);
      const auto wanted = expected.find(key);
      ASSERT_EQ(found != nullptr, wanted != expected.end());
      if (found != nullptr) {
        ASSERT_EQ(**found, wanted->second);
      }
    }
    for (const auto& [key, value] : expected) ASSERT_EQ(*map.at(key), value);
  }
}

}  // namespace
}  // namespace opweld
