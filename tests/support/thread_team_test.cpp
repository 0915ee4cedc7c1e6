#include "support/thread_team.h"

#include <gtest/gtest.h>

#include <algorithm>
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

// Steps of the same job: after a barrier a step reads what any thread stored before it, without one
// it must not have to. Each task of a step adds up what all tasks of the step before the barrier
// left, so that one begun too early is off.
TEST_P(ThreadTeamTest, BarriersKeepStepsApart) {
  ThreadTeam team(GetParam());
  constexpr std::int64_t kTasks[] = {37, 1, 5, 0, 64, 2, 0, 1, 1, 16};
  std::vector<ThreadTeam::Step> steps;
  for (const std::int64_t tasks : kTasks) steps.push_back({tasks, true});
  std::vector<std::vector<std::int64_t>> values;
  for (const std::int64_t tasks : kTasks) values.emplace_back(static_cast<std::size_t>(tasks));
  for (int job = 0; job < 2000; ++job) {
    team.run_steps(steps, [&](std::size_t step, std::int64_t begin, std::int64_t end, int) {
      std::int64_t sum = job;
      if (step > 0) {
        for (const std::int64_t value : values[step - 1]) sum += value;
      }
      for (std::int64_t i = begin; i < end; ++i)
        values[step][static_cast<std::size_t>(i)] = sum + i;
    });
    std::int64_t before = job;
    for (std::size_t step = 0; step < steps.size(); ++step) {
      std::int64_t sum = 0;
      for (std::int64_t i = 0; i < steps[step].tasks; ++i) {
        ASSERT_EQ(values[step][static_cast<std::size_t>(i)], before + i)
            << "job " << job << ", step " << step;
        sum += before + i;
      }
      before = job + sum;
    }
  }
}

TEST_P(ThreadTeamTest, DoesEachTaskOfEachStepOnce) {
  ThreadTeam team(GetParam());
  std::int64_t most = 0;
  // Jobs grow and shrink, so that a worker that is late meets one of another length.
  for (int job = 0; job < 600; ++job) {
    std::vector<ThreadTeam::Step> steps;
    for (int step = 0; step < 1 + job * 7 % 40; ++step) {
      steps.push_back({(job + step) * 13 % 50, (job + step) % 3 == 0});
    }
    std::vector<std::vector<std::atomic<int>>> done;
    for (const auto& step : steps) {
      done.emplace_back(static_cast<std::size_t>(step.tasks));
      most = std::max(most, step.tasks);
    }
    team.run_steps(steps, [&](std::size_t step, std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t task = begin; task < end; ++task) {
        ++done[step][static_cast<std::size_t>(task)];
      }
    });
    for (const auto& step : done) {
      for (const auto& times : step) ASSERT_EQ(times.load(), 1) << "job " << job;
    }
  }
  EXPECT_EQ(most, 49);
}

// Of steps without a barrier the second begins while the first still runs.
TEST(ThreadTeamSteps, WithoutABarrierRunBesideEachOther) {
  ThreadTeam team(2);
  const ThreadTeam::Step steps[] = {{1, false}, {1, false}};
  std::atomic<bool> second_has_run = false;
  bool seen = false;
  team.run_steps(steps, [&](std::size_t step, std::int64_t, std::int64_t, int) {
    if (step == 1) {
      second_has_run.store(true);
      second_has_run.notify_all();
      return;
    }
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!second_has_run.load() && std::chrono::steady_clock::now() < limit) {
      std::this_thread::yield();
    }
    seen = second_has_run.load();
  });
  EXPECT_TRUE(seen);
}

// A worker that falls asleep at a barrier is woken by the task that it waits for.
TEST_P(ThreadTeamTest, WakesThoseWhoSleepAtABarrier) {
  ThreadTeam team(GetParam());
  const ThreadTeam::Step steps[] = {{3, false}, {100, true}, {1, true}, {50, true}};
  std::atomic<std::int64_t> sum = 0;
  team.run_steps(steps, [&](std::size_t step, std::int64_t begin, std::int64_t end, int) {
    if (step % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(30));
    sum += end - begin;
  });
  EXPECT_EQ(sum.load(), 154);
}

TEST(ThreadTeamProcessors, WorkersKeepOffTheCallersProcessor) {
  const Processors all = Processors::allowed();
  if (all.count() < 2) return;  // there is no other to keep to
  ThreadTeam team(std::clamp(all.count(), 1, 4));
  std::atomic<int> on_the_callers = 0;
  for (int round = 0; round < 20; ++round) {
    // A caller that is held on one processor, now this and now that.
    const int here = all.numbers()[static_cast<std::size_t>(round % all.count())];
    std::atomic<bool> is_held = false;
    std::thread caller([&] {
      is_held.wait(false);
      team.run(64, [&](std::int64_t, std::int64_t, int thread) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));  // until workers have come
        if (thread != 0 && Processors::allowed().contains(here)) ++on_the_callers;
      });
    });
    Processors one = all;
    for (const int other : all.numbers()) {
      if (other != here) one = one.without(other);
    }
    one.confine(caller);
    is_held = true;
    is_held.notify_all();
    caller.join();
  }
  EXPECT_EQ(on_the_callers.load(), 0);
}

TEST_P(ThreadTeamTest, EndsWithoutAJob) {
  ThreadTeam team(GetParam());
}

}  // namespace
}  // namespace opweld
