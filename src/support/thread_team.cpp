#include "support/thread_team.h"

#include <algorithm>
#include <cassert>

namespace opweld {

namespace {

// Looks at a flag before sleeping on it: some tens of microseconds, the distance between two
// kernels.
constexpr int kSpins = 4000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

template <typename T>
void wait_while_equal(const std::atomic<T>& flag, T value) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (flag.load(std::memory_order_acquire) != value) return;
    pause();
  }
  while (flag.load(std::memory_order_acquire) == value) {
    flag.wait(value, std::memory_order_acquire);
  }
}

}  // namespace

ThreadTeam::ThreadTeam(int threads) {
  assert(threads >= 1);
  for (int thread = 1; thread < threads; ++thread) {
    workers_.emplace_back([this, thread]() { worker_loop(thread); });
  }
}

ThreadTeam::~ThreadTeam() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadTeam::run(std::int64_t tasks, Work work) {
  if (tasks <= 0) return;
  if (workers_.empty() || tasks == 1) {
    work(0, tasks, 0);
    return;
  }
  // A few ranges a thread, so that one that was held up does not hold up all.
  constexpr std::int64_t kRangesPerThread = 4;
  work_ = &work;
  tasks_ = tasks;
  grain_ = std::max<std::int64_t>(1, tasks / (size() * kRangesPerThread));
  next_.store(0, std::memory_order_relaxed);
  unfinished_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  take_ranges(0);
  for (int left = unfinished_.load(std::memory_order_acquire); left != 0;
       left = unfinished_.load(std::memory_order_acquire)) {
    wait_while_equal(unfinished_, left);
  }
}

void ThreadTeam::take_ranges(int thread) {
  for (;;) {
    const std::int64_t begin = next_.fetch_add(grain_, std::memory_order_relaxed);
    if (begin >= tasks_) return;
    (*work_)(begin, std::min(begin + grain_, tasks_), thread);
  }
}

void ThreadTeam::worker_loop(int thread) {
  std::uint32_t seen = 0;
  for (;;) {
    wait_while_equal(generation_, seen);
    ++seen;
    if (stop_.load(std::memory_order_relaxed)) return;
    take_ranges(thread);
    if (unfinished_.fetch_sub(1, std::memory_order_release) == 1) unfinished_.notify_one();
  }
}

}  // namespace opweld
