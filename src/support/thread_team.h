// A team of threads that is handed one kernel after another, or many at once.
//
// Each thread has a share of the tasks, neighbours of each other and the same ones in every step of
// as many tasks; it takes them front to back. So what a task fetches for the next one, and what the
// kernel before has left in a core's own cache, is where it will be used. Who has done his share
// helps with those of others.
//
// Between kernels the threads spin for some microseconds before they sleep, so that a hand-over in
// the middle of a run costs little, and an idle team costs nothing: who has nothing to do leaves
// the processor to others before they miss it. Neither a barrier nor the end
// of a job waits for threads, only for tasks that were begun: a worker that the system keeps off
// the processor holds up nobody, and finds the work gone.
//
// Where there is a processor for every thread, workers are kept off the one that the caller of
// run() is on. Left to itself, Linux now and then wakes a worker on the caller's, because the
// thread that asked the caller for the run was still on the other; there it waits until the
// caller's time slice is over, which is longer than most runs, and the caller does the work alone.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "support/function_ref.h"
#include "support/processors.h"

namespace opweld {

class ThreadTeam {
 public:
  // Work on tasks [begin, end), on the thread with this number in [0, size()).
  using Work = FunctionRef<void(std::int64_t begin, std::int64_t end, int thread)>;

  // One of the steps of a job.
  struct Step {
    std::int64_t tasks = 0;
    // Begins when every task of the steps before it has returned, and sees what they stored.
    // Without, it may run beside them.
    bool after_barrier = false;
  };
  // Work on tasks [begin, end) of a step.
  using StepWork =
      FunctionRef<void(std::size_t step, std::int64_t begin, std::int64_t end, int thread)>;

  // `threads` >= 1; the calling thread of run() is one of them. Workers run on `processors`.
  explicit ThreadTeam(int threads, Processors processors = Processors::allowed());
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  [[nodiscard]] int size() const { return static_cast<int>(shares_.size()); }

  // Whether threads of other teams want the same processors: who waits then does not spin. Between
  // runs only.
  void expect_crowd(bool crowded);

  // Covers [0, tasks) with calls of `work`, each range handed out once; returns when all have
  // returned. One run at a time, and none from inside another.
  void run(std::int64_t tasks, Work work);

  // The same for every step, all in one hand-over: threads go from step to step by themselves. A
  // thread is in one step at a time, and comes to them in their order.
  void run_steps(std::span<const Step> steps, StepWork work);

 private:
  // A step as the workers find it. Atomic, since a worker that is late may look at it while the
  // next job is written; it then finds the generation changed and believes none of it.
  struct Posted {
    std::atomic<std::int64_t> tasks{0};
    std::atomic<std::int64_t> grain{1};      // tasks of a range
    std::atomic<std::int64_t> begins_at{0};  // the count of finished tasks at which it may begin
    std::atomic<std::int64_t> ends_at{0};    // that at which its stretch between barriers is done
  };

  void worker_loop(int thread);
  void keep_workers_apart();
  // Writes the job down for all and wakes the workers; returns the count of finished tasks at which
  // it is done.
  std::int64_t post(std::span<const Step> steps, const StepWork& work);
  // Goes through the steps of the job of this generation; gives up when that is over.
  void walk(std::uint32_t generation, int thread);
  // What a thread knows of the step that it is in.
  struct Claim {
    std::size_t index = 0;
    std::uint64_t number = 0;
    std::int64_t tasks = 0;
    std::int64_t grain = 1;
  };
  // Does ranges of a share until all are claimed; returns the number of tasks.
  std::int64_t take_share(const Claim& step, int share, int thread, const StepWork* work);

  // The number of a step in the upper bits, the next range of the share in the lower: one word, so
  // that a range can only be claimed of the step that was meant. A number below that of a step
  // means that nobody has claimed a range of it yet; one above, that all are claimed.
  struct alignas(64) Share {
    std::atomic<std::uint64_t> ticket{0};
  };

  template <typename T, typename Done>
  void wait_until(const std::atomic<T>& flag, Done done) const;

  const Processors processors_;
  int callers_processor_ = -1;  // which the workers are kept off; -1: none yet
  const bool crowded_alone_;    // more threads than processors
  std::atomic<std::chrono::nanoseconds> spin_time_;
  std::vector<std::thread> workers_;
  // By thread. Made before the first worker, never resized.
  std::vector<Share> shares_;

  // The job. Written while the generation is odd. Where it grows the old places stay, since a
  // worker that is late may still look at them.
  std::vector<std::vector<Posted>> posted_;
  std::size_t posted_size_ = 0;
  std::atomic<const Posted*> steps_{nullptr};
  std::atomic<std::size_t> num_steps_{0};
  std::atomic<std::uint64_t> first_number_{1};  // of its steps; those of the next job follow
  std::atomic<const StepWork*> work_{nullptr};

  std::atomic<std::uint32_t> generation_{0};  // advanced twice by each job; wakes the workers
  // Tasks since the team was made.
  alignas(64) std::atomic<std::int64_t> finished_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace opweld
