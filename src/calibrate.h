// The rates of this machine, measured with kernels of the simplest kind.
#pragma once

#include <string>
#include <vector>

#include "compile.h"
#include "target/target.h"

namespace opweld {

// Measured in turns with whatever is to be held against them, since a shared machine is not as fast
// in one second as in the next.
class Calibration {
 public:
  // Compiles the kernels, which run on so many threads; 0: as many as the target has cores.
  static Expected<Calibration> create(const Target& target, int threads);

  // Runs all of them a few times more, each warm.
  Status sample();

  // The target with the rates that its kernels reach here: of memory and of a cache (one pointwise
  // operator over 64 MB, and over what fits), of multiply-adds and of the matrix unit (a product of
  // 512 and of 1024 a side), and what a launch takes (what pointwise operators take beyond their
  // elements). Divided by the shares that the kernel model takes kernels to reach of a peak
  // (fusion/cost.h). By the medians of all samples, of which there is one at least. Planning does
  // not use it, since a plan that depended on it would not be the same each time.
  [[nodiscard]] Target rates() const;

 private:
  struct Probe {
    Compiled compiled;
    std::vector<Tensor> inputs;
    std::vector<Tensor> outputs;
    std::vector<double> seconds;  // one for each sample
  };

  static Expected<Probe> probe_of(const std::string& text, const Target& target, int threads);
  static Status run(Probe& probe);

  Target target_;
  int threads_ = 1;
  std::int64_t near_elements_ = 0;
  std::vector<Probe> probes_;  // one for each kind that the target has
};

}  // namespace opweld
