// The arena: no two values that are live at one time share a byte.
#include "runtime/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace opweld {
namespace {

MemoryPlan plan_of(const std::vector<Lifetime>& values) {
  auto plan = plan_memory(values);
  EXPECT_TRUE(plan) << plan.error().message;
  return plan ? *plan : MemoryPlan();
}

TEST(MemoryPlan, OfNothingIsEmpty) {
  EXPECT_EQ(plan_of({}).arena_bytes, 0);
}

TEST(MemoryPlan, PlacesAreAlignedAndReused) {
  // a lives in steps 0-1, b in 1-2, c in 2-3: c takes over from a.
  const MemoryPlan plan = plan_of({{100, 0, 1}, {100, 1, 2}, {100, 2, 3}});
  EXPECT_EQ(plan.offsets[0], plan.offsets[2]);
  EXPECT_NE(plan.offsets[0], plan.offsets[1]);
  EXPECT_EQ(plan.arena_bytes, 2 * 128);
  for (const std::int64_t offset : plan.offsets) EXPECT_EQ(offset % kArenaAlignment, 0);
}

TEST(MemoryPlan, AValueWrittenWhereAnotherIsReadLastLivesBesideIt) {
  const MemoryPlan plan = plan_of({{64, 0, 1}, {64, 1, 1}});
  EXPECT_NE(plan.offsets[0], plan.offsets[1]);
}

TEST(MemoryPlan, InPlaceTakesOverThePlace) {
  const MemoryPlan plan = plan_of({{64, 0, 1}, {64, 1, 2, 0}, {64, 2, 3, 1}, {64, 3, 3}});
  EXPECT_EQ(plan.offsets[1], plan.offsets[0]);
  EXPECT_EQ(plan.offsets[2], plan.offsets[0]);
  EXPECT_NE(plan.offsets[3], plan.offsets[0]) << "the chain is live until its last reader";
}

TEST(MemoryPlan, EmptyValuesTakeNoRoom) {
  EXPECT_EQ(plan_of({{0, 0, 5}, {0, 1, 2}, {0, 2, 4, 1}}).arena_bytes, 0);
}

TEST(MostLiveBytes, AreThoseOfTheFullestStep) {
  EXPECT_EQ(most_live_bytes({}), 0);
  const std::vector<Lifetime> apart = {{100, 0, 0}, {70, 1, 1}};
  EXPECT_EQ(most_live_bytes(apart), 100);
  // Steps 1 and 2 hold two each, step 2 the larger ones.
  const std::vector<Lifetime> chain = {{100, 0, 1}, {10, 1, 2}, {200, 2, 3}};
  EXPECT_EQ(most_live_bytes(chain), 210);
  const std::vector<Lifetime> unread = {{100, 0, 0}, {30, 0, 0}};
  EXPECT_EQ(most_live_bytes(unread), 130);
}

TEST(MostLiveBytes, CountAPlaceThatIsTakenOverOnce) {
  const std::vector<Lifetime> chain = {{64, 0, 1}, {64, 1, 2, 0}, {64, 2, 2, 1}};
  EXPECT_EQ(most_live_bytes(chain), 64);
  const std::vector<Lifetime> beside = {{64, 0, 1}, {64, 1, 2, 0}, {10, 1, 2}};
  EXPECT_EQ(most_live_bytes(beside), 74);
}

TEST(MemoryPlan, SizesBeyondReasonAreErrors) {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  EXPECT_FALSE(plan_memory(std::vector<Lifetime>{{kHuge, 0, 0}}));
  const std::vector<Lifetime> many(9, Lifetime{kHuge / 4 - 63, 0, 0});
  EXPECT_FALSE(plan_memory(many)) << "each is possible, not all together";
  EXPECT_TRUE(plan_memory(std::vector<Lifetime>{{kHuge / 8, 0, 0}}));
}

std::vector<Lifetime> random_values(std::mt19937& random) {
  const auto below = [&](int limit) {
    return static_cast<int>(random() % static_cast<unsigned>(limit));
  };
  std::vector<Lifetime> values;
  std::vector<bool> taken;
  int step = 0;
  for (int i = 1 + below(40); i > 0; --i) {
    step += below(2);
    Lifetime value;
    value.bytes = below(5) == 0 ? 0 : below(4) * 64 + below(200);
    value.first_step = step;
    value.last_step = step + below(6);
    for (std::size_t other = 0; below(2) == 0 && other < values.size(); ++other) {
      if (taken[other] || values[other].last_step != step || values[other].first_step == step) {
        continue;
      }
      value.in_place_of = static_cast<int>(other);
      value.bytes = values[other].bytes;
      taken[other] = true;
      break;
    }
    values.push_back(value);
    taken.push_back(false);
  }
  return values;
}

bool live(const Lifetime& value, int step) {
  return value.first_step <= step && step <= value.last_step;
}

// What is live in this step, a place that is handed over in it counted once.
std::int64_t bytes_needed(const std::vector<Lifetime>& values, int step) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool handed_over = std::any_of(values.begin(), values.end(), [&](const Lifetime& each) {
      return each.in_place_of == static_cast<int>(i) && live(each, step);
    });
    if (live(values[i], step) && !handed_over) bytes += values[i].bytes;
  }
  return bytes;
}

TEST(MemoryPlan, ValuesLiveAtOneTimeNeverShareAByte) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    const std::vector<Lifetime> values = random_values(random);
    const MemoryPlan plan = plan_of(values);
    ASSERT_EQ(plan.offsets.size(), values.size());
    std::int64_t most = 0;
    for (int step = 0; step < 50; ++step) most = std::max(most, bytes_needed(values, step));
    ASSERT_EQ(most_live_bytes(values), most);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Lifetime& a = values[i];
      ASSERT_EQ(plan.offsets[i] % kArenaAlignment, 0);
      ASSERT_GE(plan.offsets[i], 0);
      ASSERT_LE(plan.offsets[i] + a.bytes, plan.arena_bytes);
      ASSERT_GE(plan.arena_bytes, bytes_needed(values, a.first_step));
      for (std::size_t j = 0; j < values.size(); ++j) {
        const Lifetime& b = values[j];
        if (i == j || !live(b, a.first_step) || a.bytes == 0 || b.bytes == 0) continue;
        if (a.in_place_of == static_cast<int>(j)) {
          ASSERT_EQ(plan.offsets[i], plan.offsets[j]);
          continue;
        }
        const bool apart = plan.offsets[i] + a.bytes <= plan.offsets[j] ||
                           plan.offsets[j] + b.bytes <= plan.offsets[i];
        const bool hands_over = b.in_place_of == static_cast<int>(i);
        ASSERT_TRUE(apart || hands_over) << "values " << i << " and " << j << " in round " << round;
      }
    }
  }
}

}  // namespace
}  // namespace opweld
