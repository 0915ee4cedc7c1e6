#include "support/thread_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace opweld {
namespace {

class ThreadTeamTest : public ::testing::TestWithParam<int> {};

// The last number has more threads than this kind of machine has cores.
INSTANTIATE_TEST_SUITE_P(Threads, ThreadTeamTest, ::testing::Values(1, 2, 3, 16));

TEST_P(ThreadTeamTest, HandsOutEachTaskOnce) {
  ThreadTeam team(GetParam());
  EXPECT_EQ(team.size(), GetParam());
  for (const std::int64_t tasks : {0, 1, 2, 3, 7, 8, 9, 63, 64, 1000, 100003}) {
    std::vector<std::atomic<int>> done(static_cast<std::size_t>(tasks));
    team.run(tasks, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t task = begin; task < end; ++task) ++done[static_cast<std::size_t>(task)];
    });
    for (const auto& times : done) ASSERT_EQ(times.load(), 1) << "of " << tasks;
  }
}

// One job right after another is what a run of a model is, and where a worker that comes late may
// meet the next job. What a job leaves is plain memory, which the caller must be able to read.
TEST_P(ThreadTeamTest, KeepsManySmallJobsApart) {
  ThreadTeam team(GetParam());
  std::vector<std::int64_t> values(37);
  for (int job = 0; job < 20000; ++job) {
    const auto tasks = static_cast<std::int64_t>(1 + job % 37);
    team.run(tasks, [&values, job](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t task = begin; task < end; ++task) {
        values[static_cast<std::size_t>(task)] = job + task;
      }
    });
    for (std::int64_t task = 0; task < tasks; ++task) {
      ASSERT_EQ(values[static_cast<std::size_t>(task)], job + task);
    }
  }
}

// Scratch memory is given out by thread number, so no two threads may hold the same one at a time.
TEST_P(ThreadTeamTest, NumbersItsThreads) {
  ThreadTeam team(GetParam());
  std::vector<std::atomic<bool>> busy(static_cast<std::size_t>(team.size()));
  std::atomic<int> clashes = 0;
  for (int job = 0; job < 500; ++job) {
    team.run(64, [&](std::int64_t, std::int64_t, int thread) {
      ASSERT_GE(thread, 0);
      ASSERT_LT(thread, GetParam());
      std::atomic<bool>& mine = busy[static_cast<std::size_t>(thread)];
      if (mine.exchange(true)) ++clashes;
      mine.store(false);
    });
  }
  EXPECT_EQ(clashes.load(), 0);
}

// A range that takes long holds up the end of the job, and nothing returns before it.
TEST_P(ThreadTeamTest, WaitsForTheSlowestRange) {
  ThreadTeam team(GetParam());
  std::atomic<int> finished = 0;
  team.run(8, [&](std::int64_t begin, std::int64_t end, int) {
    if (begin == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    finished += static_cast<int>(end - begin);
  });
  EXPECT_EQ(finished.load(), 8);
}

TEST_P(ThreadTeamTest, WakesAfterItHasSlept) {
  ThreadTeam team(GetParam());
  std::atomic<std::int64_t> sum = 0;
  for (int job = 0; job < 3; ++job) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    team.run(100, [&](std::int64_t begin, std::int64_t end, int) { sum += end - begin; });
  }
  EXPECT_EQ(sum.load(), 300);
}

TEST_P(ThreadTeamTest, EndsWithoutAJob) {
  ThreadTeam team(GetParam());
}

}  // namespace
}  // namespace opweld
