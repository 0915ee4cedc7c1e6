#include "support/thread_team.h"

#include <algorithm>
#include <cassert>

namespace opweld {

namespace {

// Looks at a flag before sleeping on it: some tens of microseconds, the distance between two
// kernels.
constexpr int kSpins = 4000;

constexpr std::uint64_t kRangeMask = 0xffff'ffff;
constexpr std::uint64_t kNextJob = kRangeMask + 1;

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
  const std::int64_t grain = std::max<std::int64_t>(1, tasks / (size() * kRangesPerThread));
  const auto ranges = static_cast<std::uint32_t>((tasks + grain - 1) / grain);
  const std::uint64_t job = (ticket_.load(std::memory_order_relaxed) & ~kRangeMask) + kNextJob;
  ticket_.store(job | kRangeMask, std::memory_order_relaxed);  // closed
  // Each release, so that whoever sees one of these sees the ticket closed.
  work_.store(&work, std::memory_order_release);
  tasks_.store(tasks, std::memory_order_release);
  grain_.store(grain, std::memory_order_release);
  ranges_.store(ranges, std::memory_order_release);
  finished_.store(0, std::memory_order_relaxed);
  ticket_.store(job, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  take_ranges(0);
  for (auto done = finished_.load(std::memory_order_acquire); done != ranges;
       done = finished_.load(std::memory_order_acquire)) {
    wait_while_equal(finished_, done);
  }
}

void ThreadTeam::take_ranges(int thread) {
  std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
  for (;;) {
    const Work* const work = work_.load(std::memory_order_acquire);
    const std::int64_t tasks = tasks_.load(std::memory_order_acquire);
    const std::int64_t grain = grain_.load(std::memory_order_acquire);
    const std::uint64_t range = ticket & kRangeMask;
    if (range >= ranges_.load(std::memory_order_acquire)) return;
    // On success the job still had this range to do, so what was read of it above is of this job.
    if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
      continue;
    }
    const std::int64_t begin = static_cast<std::int64_t>(range) * grain;
    (*work)(begin, std::min(begin + grain, tasks), thread);
    finished_.fetch_add(1, std::memory_order_release);
    finished_.notify_one();
    ++ticket;
  }
}

void ThreadTeam::worker_loop(int thread) {
  std::uint32_t seen = 0;
  for (;;) {
    wait_while_equal(generation_, seen);
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    take_ranges(thread);
  }
}

}  // namespace opweld
