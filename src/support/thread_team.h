// A team of threads that is handed one kernel after another.
//
// Each thread has a share of the tasks, neighbours of each other and the same ones in every job of
// as many tasks; it takes them front to back. So what a task fetches for the next one, and what the
// kernel before has left in a core's own cache, is where it will be used. Who has done his share
// helps with those of others.
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

  [[nodiscard]] int size() const { return static_cast<int>(shares_.size()); }

  // Covers [0, tasks) with calls of `work`, each range handed out once; returns when all have
  // returned. One run at a time, and none from inside another.
  void run(std::int64_t tasks, Work work);

 private:
  void worker_loop(int thread);
  // Claims ranges until there are none left, those of its own share first.
  void take_ranges(int thread);
  void take_share(int share, int thread);

  // The number of the job in the upper half, of the next range of the share in the lower: one word,
  // so that a range can only be claimed of the job that was read.
  struct alignas(64) Share {
    std::atomic<std::uint64_t> ticket{0};
  };

  std::vector<std::thread> workers_;
  // By thread. Made before the first worker, never resized.
  std::vector<Share> shares_;
  // The job. Written only while all tickets are closed, so that whoever reads a part of the next
  // job fails to claim a range of the one before. No range of it is unfinished then.
  std::atomic<const Work*> work_{nullptr};
  std::atomic<std::int64_t> tasks_{0};
  std::atomic<std::int64_t> grain_{1};                 // tasks of a range
  std::atomic<std::uint32_t> generation_{0};           // advanced by each job; wakes the workers
  alignas(64) std::atomic<std::int64_t> finished_{0};  // tasks of the current job
  std::atomic<bool> stop_{false};
};

}  // namespace opweld
