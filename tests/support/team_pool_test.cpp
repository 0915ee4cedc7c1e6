#include "support/team_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

namespace opweld {
namespace {

std::int64_t sum_below(ThreadTeam& team, std::int64_t tasks) {
  std::atomic<std::int64_t> sum = 0;
  team.run(tasks, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t task = begin; task < end; ++task) sum += task;
  });
  return sum.load();
}

TEST(TeamPool, IsOneForAllWhoAskForAsManyThreads) {
  const auto two = TeamPool::of(2);
  EXPECT_EQ(two, TeamPool::of(2));
  EXPECT_NE(two, TeamPool::of(3));
  EXPECT_EQ(two->threads(), 2);
  EXPECT_EQ(two->take().team().size(), 2);
}

TEST(TeamPool, GoesWithTheLastThatHoldsIt) {
  std::weak_ptr<TeamPool> pool = TeamPool::of(5);
  EXPECT_TRUE(pool.expired());
  const auto again = TeamPool::of(5);
  EXPECT_EQ(again->teams(), 0);
}

TEST(TeamPool, RunsOneAfterAnotherHaveTheSameTeam) {
  const auto pool = TeamPool::of(2);
  ThreadTeam* team = nullptr;
  for (int run = 0; run < 5; ++run) {
    const TeamPool::Lease lent = pool->take();
    if (run > 0) {
      EXPECT_EQ(team, &lent.team());
    }
    team = &lent.team();
    EXPECT_EQ(sum_below(lent.team(), 1000), 499500);
  }
  EXPECT_EQ(pool->teams(), 1);
}

// An observer of a run may run a program of its own, and so may a custom operator.
TEST(TeamPool, RunsInsideOthersHaveTheirOwn) {
  const auto pool = TeamPool::of(3);
  const TeamPool::Lease outer = pool->take();
  std::atomic<std::int64_t> sum = 0;
  outer.team().run(7, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t task = begin; task < end; ++task) {
      const TeamPool::Lease inner = pool->take();
      EXPECT_NE(&inner.team(), &outer.team());
      sum += sum_below(inner.team(), 100);
    }
  });
  EXPECT_EQ(sum.load(), 7 * 4950);
  EXPECT_LE(pool->teams(), 4);
}

TEST(TeamPool, LendsNoTeamToTwoAtOnce) {
  const auto pool = TeamPool::of(2);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 6; ++caller) {
    callers.emplace_back([&pool] {
      for (std::int64_t run = 0; run < 300; ++run) {
        const TeamPool::Lease lent = pool->take();
        ASSERT_EQ(sum_below(lent.team(), 50 + run), (50 + run) * (49 + run) / 2);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_GE(pool->teams(), 1);
  EXPECT_LE(pool->teams(), 6);
}

#if defined(__linux__)
// Workers are where the pool is for, not where the thread may be that happens to need a team first.
TEST(TeamPool, WorkersMayBeOnAllItsProcessors) {
  const Processors all = Processors::allowed();
  const auto pool = TeamPool::of(2);
  std::thread narrow([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(all.numbers().front(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    (void)pool->take();
  });
  narrow.join();
  const TeamPool::Lease lent = pool->take();
  std::vector<Processors> allowed(2);
  // Each of two tasks waits until the other has begun, so that the worker has one.
  std::atomic<int> begun = 0;
  lent.team().run(2, [&](std::int64_t begin, std::int64_t, int thread) {
    ASSERT_GE(begin, 0);
    allowed[static_cast<std::size_t>(thread)] = Processors::allowed();
    ++begun;
    while (begun.load() < 2) std::this_thread::yield();
  });
  // Of as many threads as processors, the worker is kept off the caller's.
  EXPECT_GE(allowed[1].count(), all.count() - 1);
}
#endif

}  // namespace
}  // namespace opweld
