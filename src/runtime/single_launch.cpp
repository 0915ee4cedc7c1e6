#include "runtime/single_launch.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <tuple>

namespace opweld {

namespace {

// Steps in the making: a kernel each, but for chains of kernels of one task.
class Arrangement {
 public:
  explicit Arrangement(std::span<const LaunchedKernel> kernels) : kernels_(kernels) {
    for (std::size_t kernel = 0; kernel < kernels.size(); ++kernel) {
      add(static_cast<int>(kernel));
    }
    delay();
  }

  SingleLaunch result() && {
    const auto order_of = [](const SingleLaunch::Step& step) {
      return std::tuple(step.stretch, step.tasks > 1, step.kernels.front());
    };
    std::sort(steps_.begin(), steps_.end(),
              [&](const auto& a, const auto& b) { return order_of(a) < order_of(b); });
    SingleLaunch launch;
    launch.stretch_of.resize(kernels_.size());
    for (const SingleLaunch::Step& step : steps_) {
      launch.stretches = std::max(launch.stretches, step.stretch + 1);
      for (const int kernel : step.kernels) {
        launch.stretch_of[static_cast<std::size_t>(kernel)] = step.stretch;
      }
    }
    launch.steps = std::move(steps_);
    return launch;
  }

 private:
  SingleLaunch::Step& step_of(int kernel) {
    return steps_[step_of_[static_cast<std::size_t>(kernel)]];
  }

  // As early as its producers allow.
  void add(int kernel) {
    const LaunchedKernel& launched = kernels_[static_cast<std::size_t>(kernel)];
    int latest = -1;  // stretch of a producer
    for (const int producer : launched.producers) {
      assert(producer < kernel);
      latest = std::max(latest, step_of(producer).stretch);
    }
    // It may go on where its producers end, if that is one step and the others are done by then.
    int chain = -1;
    int chains = 0;
    for (const int producer : launched.producers) {
      const auto step = static_cast<int>(step_of_[static_cast<std::size_t>(producer)]);
      if (step_of(producer).stretch < latest || step == chain) continue;
      chain = step;
      ++chains;
    }
    if (launched.tasks <= 1 && chains == 1 && steps_[static_cast<std::size_t>(chain)].tasks <= 1) {
      SingleLaunch::Step& step = steps_[static_cast<std::size_t>(chain)];
      step.kernels.push_back(kernel);
      step.tasks = std::max(step.tasks, launched.tasks);
      step_of_.push_back(static_cast<std::size_t>(chain));
      return;
    }
    step_of_.push_back(steps_.size());
    steps_.push_back({latest + 1, launched.tasks, {kernel}});
  }

  // From the last stretch to the first, so that the readers of a step have their places.
  void delay() {
    constexpr int kNobody = -1;
    std::vector<std::vector<std::size_t>> readers(steps_.size());
    for (std::size_t kernel = 0; kernel < kernels_.size(); ++kernel) {
      for (const int producer : kernels_[kernel].producers) {
        const std::size_t from = step_of_[static_cast<std::size_t>(producer)];
        if (from != step_of_[kernel]) readers[from].push_back(step_of_[kernel]);
      }
    }
    std::vector<std::size_t> order(steps_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return steps_[a].stretch > steps_[b].stretch;
    });
    for (const std::size_t step : order) {
      int first_reader = kNobody;
      for (const std::size_t reader : readers[step]) {
        const int stretch = steps_[reader].stretch;
        if (first_reader == kNobody || stretch < first_reader) first_reader = stretch;
      }
      if (first_reader != kNobody) steps_[step].stretch = first_reader - 1;
    }
  }

  std::span<const LaunchedKernel> kernels_;
  std::vector<SingleLaunch::Step> steps_;
  std::vector<std::size_t> step_of_;  // by kernel
};

}  // namespace

SingleLaunch arrange_launch(std::span<const LaunchedKernel> kernels) {
  return Arrangement(kernels).result();
}

}  // namespace opweld
