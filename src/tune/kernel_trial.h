// Kernels of a model by themselves, as they run there: to time one choice of block sizes against
// another.
//
// The model's own kernels of a class run one after the other, each with its own weights, so that a
// kernel finds in the caches what it would find there: where the weights of many layers pass by,
// none of them; where they are few, all.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fusion/plan.h"
#include "graph/tensor.h"
#include "runtime/executable.h"
#include "support/expected.h"
#include "tile/lower.h"

namespace opweld {

class KernelTrial {
 public:
  struct Subject {
    std::vector<const Kernel*> kernels;  // equal but for their weights; constants still there
    std::vector<Tensor> inputs;          // what the first one read, in the order of its inputs
    std::vector<Dim> symbols;            // of the model
    Bindings sizes;                      // what those are
  };
  static Expected<KernelTrial> create(const Subject& subject, const tile::LowerOptions& options,
                                      int threads);

  // One run of all kernels. Seconds of one of them.
  Expected<double> run();
  // Of the last run, kernel by kernel.
  [[nodiscard]] std::span<const Tensor> outputs() const { return outputs_; }
  // The first kernel's tile program.
  [[nodiscard]] std::string program() const;

 private:
  explicit KernelTrial(Executable executable) : executable_(std::move(executable)) {}
  Status allocate(const Subject& subject);

  Executable executable_;
  std::vector<Tensor> inputs_, outputs_;
};

// How much of the time of `usual` the other one takes: the median over `turns` turns, in each of
// which both run some times. Absent where `deadline` came first. Ends early where the other is
// slower beyond doubt.
struct Race {
  int turns = 0;
  double deadline = 0;  // as now() has it
};
Expected<std::optional<double>> race(KernelTrial& usual, KernelTrial& other, const Race& race);

// Seconds on a steady clock.
double now();

}  // namespace opweld
