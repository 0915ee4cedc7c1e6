// A team of threads that is handed one kernel after another.
//
// Between kernels the workers spin for some microseconds before they sleep, so that a hand-over in
// the middle of a run costs little, and an idle team costs nothing.
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
  void take_ranges(int thread);

  std::vector<std::thread> workers_;
  // The job, written before generation_ is advanced and read after it is seen to be.
  const Work* work_ = nullptr;
  std::int64_t tasks_ = 0;
  std::int64_t grain_ = 1;
  std::atomic<std::int64_t> next_{0};
  alignas(64) std::atomic<std::uint32_t> generation_{0};
  alignas(64) std::atomic<int> unfinished_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace opweld
