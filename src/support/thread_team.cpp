#include "support/thread_team.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace opweld {

namespace {

using Clock = std::chrono::steady_clock;

// How long a thread looks at a flag before it sleeps on it: the distance between two kernels, and
// about what it takes to be woken. In time, as a pause takes ten cycles on some processors and more
// than a hundred on others.
constexpr std::chrono::nanoseconds kSpinTime = std::chrono::microseconds(60);
// Where there are more threads than processors, who spins keeps those off that have work: no longer
// than a barrier takes that is just being reached.
constexpr std::chrono::nanoseconds kSpinTimeWhenCrowded = std::chrono::microseconds(4);
// Looks between two looks at the clock.
constexpr int kLooks = 16;

constexpr int kRangeBits = 16;
constexpr std::uint64_t kRangeMask = (std::uint64_t{1} << kRangeBits) - 1;

// A few ranges a thread, so that one that was held up does not hold up all.
constexpr std::int64_t kRangesPerThread = 8;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

template <typename T, typename Done>
void ThreadTeam::wait_until(const std::atomic<T>& flag, Done done) const {
  if (done(flag.load(std::memory_order_acquire))) return;
  const Clock::time_point end = Clock::now() + spin_time_.load(std::memory_order_relaxed);
  do {
    for (int look = 0; look < kLooks; ++look) {
      pause();
      if (done(flag.load(std::memory_order_acquire))) return;
    }
  } while (Clock::now() < end);
  for (T value = flag.load(std::memory_order_acquire); !done(value);
       value = flag.load(std::memory_order_acquire)) {
    flag.wait(value, std::memory_order_acquire);
  }
}

ThreadTeam::ThreadTeam(int threads, Processors processors)
    : processors_(std::move(processors)),
      crowded_alone_(threads > (processors_.count() > 0
                                    ? processors_.count()
                                    : static_cast<int>(std::thread::hardware_concurrency()))),
      shares_(static_cast<std::size_t>(threads)) {
  assert(threads >= 1);
  expect_crowd(false);
  for (int thread = 1; thread < threads; ++thread) {
    workers_.emplace_back([this, thread]() { worker_loop(thread); });
    // Else it would be where the thread may be that happens to make the team.
    if (processors_.count() > 0) processors_.confine(workers_.back());
  }
}

void ThreadTeam::expect_crowd(bool crowded) {
  spin_time_.store(crowded || crowded_alone_ ? kSpinTimeWhenCrowded : kSpinTime,
                   std::memory_order_relaxed);
}

ThreadTeam::~ThreadTeam() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(2, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadTeam::keep_workers_apart() {
  if (size() > processors_.count()) return;
  const int here = Processors::current();
  if (here == callers_processor_ || !processors_.contains(here)) return;
  callers_processor_ = here;
  const Processors others = processors_.without(here);
  for (std::thread& worker : workers_) others.confine(worker);
}

void ThreadTeam::run(std::int64_t tasks, Work work) {
  const Step step{tasks, false};
  run_steps({&step, 1}, [&work](std::size_t, std::int64_t begin, std::int64_t end, int thread) {
    work(begin, end, thread);
  });
}

void ThreadTeam::run_steps(std::span<const Step> steps, StepWork work) {
  std::int64_t tasks = 0;
  for (const Step& step : steps) tasks += std::max<std::int64_t>(0, step.tasks);
  // Nothing for anybody else to do.
  if (workers_.empty() || tasks <= 1) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].tasks > 0) work(i, 0, steps[i].tasks, 0);
    }
    return;
  }
  keep_workers_apart();
  const std::int64_t done_at = post(steps, work);
  walk(generation_.load(std::memory_order_relaxed), 0);
  wait_until(finished_, [done_at](std::int64_t finished) { return finished >= done_at; });
}

std::int64_t ThreadTeam::post(std::span<const Step> steps, const StepWork& work) {
  // Every store of the job is a release after this one: whoever reads a part of it that is new then
  // also finds the generation changed.
  generation_.fetch_add(1, std::memory_order_relaxed);
  if (steps.size() > posted_size_) {
    posted_size_ = std::max(steps.size(), 2 * posted_size_);
    posted_.emplace_back(posted_size_);
  }
  Posted* const posted = posted_.back().data();
  std::int64_t count = finished_.load(std::memory_order_relaxed);
  std::int64_t stretch_begins = count;
  std::size_t stretch = 0;  // its first step
  const auto end_stretch = [&](std::size_t end) {
    for (; stretch < end; ++stretch)
      posted[stretch].ends_at.store(count, std::memory_order_release);
  };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].after_barrier) {
      end_stretch(i);
      stretch_begins = count;
    }
    const std::int64_t tasks = std::max<std::int64_t>(0, steps[i].tasks);
    posted[i].tasks.store(tasks, std::memory_order_release);
    posted[i].grain.store(std::max<std::int64_t>(1, tasks / (size() * kRangesPerThread)),
                          std::memory_order_release);
    posted[i].begins_at.store(stretch_begins, std::memory_order_release);
    count += tasks;
  }
  end_stretch(steps.size());
  first_number_.fetch_add(num_steps_.load(std::memory_order_relaxed), std::memory_order_release);
  num_steps_.store(steps.size(), std::memory_order_release);
  steps_.store(posted, std::memory_order_release);
  work_.store(&work, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  return count;
}

void ThreadTeam::walk(std::uint32_t generation, int thread) {
  const Posted* const steps = steps_.load(std::memory_order_acquire);
  const std::size_t num_steps = num_steps_.load(std::memory_order_acquire);
  const std::uint64_t first_number = first_number_.load(std::memory_order_acquire);
  const StepWork* const work = work_.load(std::memory_order_acquire);
  const auto is_over = [&] { return generation_.load(std::memory_order_acquire) != generation; };
  if (is_over()) return;
  for (std::size_t i = 0; i < num_steps; ++i) {
    Claim claim;
    claim.index = i;
    claim.number = first_number + i;
    claim.tasks = steps[i].tasks.load(std::memory_order_acquire);
    claim.grain = steps[i].grain.load(std::memory_order_acquire);
    const std::int64_t begins_at = steps[i].begins_at.load(std::memory_order_acquire);
    const std::int64_t ends_at = steps[i].ends_at.load(std::memory_order_acquire);
    if (is_over()) return;
    wait_until(finished_, [begins_at](std::int64_t finished) { return finished >= begins_at; });
    std::int64_t done = 0;
    for (int other = 0; other < size(); ++other) {
      done += take_share(claim, (thread + other) % size(), thread, work);
    }
    if (done == 0) continue;
    // At the end of a stretch others wait, at a barrier or for the end of the job.
    if (finished_.fetch_add(done, std::memory_order_acq_rel) + done == ends_at) {
      finished_.notify_all();
    }
  }
}

std::int64_t ThreadTeam::take_share(const Claim& step, int share, int thread,
                                    const StepWork* work) {
  // Rounded up, so that tasks too few for all are the first threads'.
  const std::int64_t first = (step.tasks * share + size() - 1) / size();
  const std::int64_t end = (step.tasks * (share + 1) + size() - 1) / size();
  if (first >= end) return 0;
  std::atomic<std::uint64_t>& ticket = shares_[static_cast<std::size_t>(share)].ticket;
  std::uint64_t seen = ticket.load(std::memory_order_acquire);
  std::int64_t done = 0;
  for (;;) {
    const std::uint64_t number = seen >> kRangeBits;
    if (number > step.number) return done;
    const std::uint64_t range = number == step.number ? seen & kRangeMask : 0;
    const std::int64_t begin = first + static_cast<std::int64_t>(range) * step.grain;
    if (begin >= end) return done;
    // On success the range was still to do, so the job is not over, and `work` is there.
    const std::uint64_t next = (step.number << kRangeBits) | (range + 1);
    if (!ticket.compare_exchange_weak(seen, next, std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
      continue;
    }
    const std::int64_t count = std::min(step.grain, end - begin);
    (*work)(step.index, begin, begin + count, thread);
    done += count;
    seen = next;
  }
}

void ThreadTeam::worker_loop(int thread) {
  std::uint32_t seen = 0;
  for (;;) {
    wait_until(generation_, [seen](std::uint32_t now) { return now != seen; });
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (seen % 2 == 0) walk(seen, thread);
  }
}

}  // namespace opweld
