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

ThreadTeam::ThreadTeam(int threads) : shares_(static_cast<std::size_t>(threads)) {
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
  constexpr std::int64_t kRangesPerThread = 8;
  const std::uint64_t job =
      (shares_[0].ticket.load(std::memory_order_relaxed) & ~kRangeMask) + kNextJob;
  for (Share& share : shares_) share.ticket.store(job | kRangeMask, std::memory_order_relaxed);
  // Each release, so that whoever sees one of these sees the tickets closed.
  work_.store(&work, std::memory_order_release);
  tasks_.store(tasks, std::memory_order_release);
  grain_.store(std::max<std::int64_t>(1, tasks / (size() * kRangesPerThread)),
               std::memory_order_release);
  finished_.store(0, std::memory_order_relaxed);
  for (Share& share : shares_) share.ticket.store(job, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  take_ranges(0);
  for (auto done = finished_.load(std::memory_order_acquire); done != tasks;
       done = finished_.load(std::memory_order_acquire)) {
    wait_while_equal(finished_, done);
  }
}

void ThreadTeam::take_ranges(int thread) {
  for (int other = 0; other < size(); ++other) take_share((thread + other) % size(), thread);
}

void ThreadTeam::take_share(int share, int thread) {
  std::atomic<std::uint64_t>& next = shares_[static_cast<std::size_t>(share)].ticket;
  std::uint64_t ticket = next.load(std::memory_order_acquire);
  for (;;) {
    const Work* const work = work_.load(std::memory_order_acquire);
    const std::int64_t tasks = tasks_.load(std::memory_order_acquire);
    const std::int64_t grain = grain_.load(std::memory_order_acquire);
    const std::int64_t first = tasks * share / size();
    const std::int64_t end = tasks * (share + 1) / size();
    const auto range = static_cast<std::int64_t>(ticket & kRangeMask);
    // Closed, or there are no tasks left.
    if (range == kRangeMask || first + range * grain >= end) return;
    // On success the job still had this range to do, so what was read of it above is of this job.
    if (!next.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel,
                                    std::memory_order_acquire)) {
      continue;
    }
    const std::int64_t begin = first + range * grain;
    const std::int64_t count = std::min(grain, end - begin);
    (*work)(begin, begin + count, thread);
    finished_.fetch_add(count, std::memory_order_release);
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
