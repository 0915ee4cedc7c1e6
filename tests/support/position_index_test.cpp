#include "support/position_index.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace opweld {
namespace {

// A list of numbers that are all different; `hash` may be as bad as it likes.
template <typename Hash>
std::int32_t place(PositionIndex& index, std::vector<int>& list, int number, const Hash& hash) {
  const auto next = static_cast<std::int32_t>(list.size());
  const std::int32_t at = index.find_or_add(hash(number), next, [&](std::int32_t position) {
    return list[static_cast<std::size_t>(position)] == number;
  });
  if (at == next) list.push_back(number);
  return at;
}

TEST(PositionIndex, FindsAgainWhatWasAdded) {
  PositionIndex index;
  std::vector<int> list;
  const auto hash = [](int number) { return static_cast<std::size_t>(number); };
  EXPECT_EQ(place(index, list, 7, hash), 0);
  EXPECT_EQ(place(index, list, 5, hash), 1);
  EXPECT_EQ(place(index, list, 7, hash), 0);
  EXPECT_EQ(list, (std::vector{7, 5}));
}

TEST(PositionIndex, TellsElementsOfOneHashApart) {
  PositionIndex index;
  std::vector<int> list;
  const auto same = [](int) { return std::size_t{42}; };
  constexpr int kMany = 300;  // more than there is room for at first
  for (int number = 0; number < kMany; ++number)
    EXPECT_EQ(place(index, list, number, same), number);
  for (int number = 0; number < kMany; ++number)
    EXPECT_EQ(place(index, list, number, same), number);
}

TEST(PositionIndex, AgreesWithAMap) {
  std::mt19937 random(1);
  PositionIndex index;
  std::vector<int> list;
  std::map<int, std::int32_t> expected;
  const auto high_bits = [](int number) { return static_cast<std::size_t>(number) << 40; };
  for (int step = 0; step < 20000; ++step) {
    const int number = static_cast<int>(random() % 4096);
    const auto next = static_cast<std::int32_t>(list.size());
    EXPECT_EQ(place(index, list, number, high_bits),
              expected.try_emplace(number, next).first->second);
  }
  EXPECT_EQ(list.size(), expected.size());
}

TEST(PositionIndex, OfACopyGoesItsOwnWay) {
  PositionIndex index;
  std::vector<int> list;
  const auto hash = [](int number) { return static_cast<std::size_t>(number); };
  place(index, list, 1, hash);
  PositionIndex copy = index;
  std::vector<int> copied = list;
  EXPECT_EQ(place(copy, copied, 2, hash), 1);
  EXPECT_EQ(place(index, list, 3, hash), 1);
  EXPECT_EQ(place(copy, copied, 1, hash), 0);
}

}  // namespace
}  // namespace opweld
