// How the kernels of a plan run in one hand-over to the thread team.
//
// Threads go through the kernels by themselves and wait for each other only where data demands it:
// where a kernel reads what another one wrote since they last waited. Kernels between two barriers
// are a stretch; they run beside each other. There are no fewer barriers than the longest chain of
// kernels that read each other's results needs, less one, and no more.
//
// Kernels of a single task that follow each other need no barrier between them at all: one thread
// runs them one after another, as one step. A call is a kernel of one task.
//
// All sizes of a run follow from those of its inputs, whatever the data: so nothing in a plan has
// to return to the caller before the rest can be sized, and one launch takes all of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace opweld {

struct SingleLaunch {
  // What the thread team is told to do: a kernel, or several of one task each, one after another.
  struct Step {
    int stretch = 0;
    std::int64_t tasks = 0;
    std::vector<int> kernels;
  };
  // By stretch; in each, what only one thread can do comes first, so that others begin with the
  // rest meanwhile.
  std::vector<Step> steps;
  std::vector<int> stretch_of;  // by kernel
  int stretches = 0;

  [[nodiscard]] int barriers() const { return stretches > 1 ? stretches - 1 : 0; }
};

struct LaunchedKernel {
  std::int64_t tasks = 0;
  std::vector<int> producers;  // kernels before it whose results it reads
};

// A kernel runs in the last stretch that is early enough for its readers, so that its results do
// not take up memory for longer than need be; one that nobody reads, in the first that it can.
SingleLaunch arrange_launch(std::span<const LaunchedKernel> kernels);

}  // namespace opweld
