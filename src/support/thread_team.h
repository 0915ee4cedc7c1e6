// A team of threads that is handed one kernel after another.
//
// Between kernels the workers spin for some microseconds before they sleep, so that a hand-over in
// the middle of a run costs little, and an idle team costs nothing. A job ends with its last range:
// a worker that the system keeps off the processor holds up nobody, and finds the job gone.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "support/function_ref.h"

namespace opweld {

class ThreadTeam {
 public:
  // Work on tasks [begin, end), on the thread with this number in [0, size()).
  using Work = FunctionRef<void(std::int64_t begin, std::int64_t end, int thread)>;

  // `threads` >= 1; the calling thread of run() is one of them.
  explicit ThreadTeam(int threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  [[nodiscard]] int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Covers [0, tasks) with calls of `work`, each range handed out once; returns when all have
  // returned. One run at a time, and none from inside another.
  void run(std::int64_t tasks, Work work);

 private:
  void worker_loop(int thread);
  // Claims ranges until there are none left.
  void take_ranges(int thread);

  std::vector<std::thread> workers_;
  // The job. Written only while the ticket is closed, so that whoever reads a part of the next job
  // fails to claim a range of the one before. No range of it is unfinished then.
  std::atomic<const Work*> work_{nullptr};
  std::atomic<std::int64_t> tasks_{0};
  std::atomic<std::int64_t> grain_{1};
  std::atomic<std::uint32_t> ranges_{0};
  // The number of the job in the upper half, of its next range in the lower: one word, so that a
  // range can only be claimed of the job that was read.
  alignas(64) std::atomic<std::uint64_t> ticket_{0};
  std::atomic<std::uint32_t> generation_{0};            // advanced by each job; wakes the workers
  alignas(64) std::atomic<std::uint32_t> finished_{0};  // ranges of the current job
  std::atomic<bool> stop_{false};
};

}  // namespace opweld
