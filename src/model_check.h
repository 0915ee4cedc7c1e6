// Is a compiled model right? Fused against unfused against the reference in f64, kernel by kernel
// and from end to end.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compile.h"
#include "custom_check.h"
#include "kernel_check.h"

namespace opweld {

// Of one output of the model. Differences are the largest of any element.
struct OutputVerdict {
  std::string name;
  double to_unfused = 0;
  double to_reference = 0;
  // The largest difference to the reference as a part of the dtype's tolerance for one kernel, at
  // most 1 where every element is within it; infinite where something is to be exact and is not.
  double of_tolerance = 0;
  std::string fault;  // empty: it agrees
};

// The outputs of a run in one launch, against those of kernels one after another.
struct LaunchVerdict {
  RunStats stats;
  std::string fault;  // empty: the same to the bit
};

struct ModelCheck {
  std::vector<OutputVerdict> outputs;
  std::vector<KernelVerdict> kernels;   // in the order in which they ran
  std::optional<LaunchVerdict> launch;  // where it was asked for
  CustomCheck custom;
  // What differs first, and where; empty when all agrees.
  std::string fault;

  [[nodiscard]] int kernels_that_differ() const;
};

// How the model was compiled.
struct CheckOptions {
  std::string target = "host";
  bool strict = false;
  bool single_launch = false;  // hold a run in one launch against kernels run apart as well
};

// `graph` is the model before it was compiled, `fused` and `unfused` (level none, not tuned) what
// became of it, both with CompileOptions::keep_constants.
//
// What has to agree: the rewritten graph with the model, both in f64; each kernel with its
// operators in f64, on the inputs that the kernel had; where tolerances hold for the whole, the
// outputs from end to end; where one is asked for, a single launch with kernels run apart, to the
// bit; and the code of a custom operator with its expression or body. In strict numerics fused
// results must be the bits of unfused ones; where they are, it is the unfused kernels, an operator
// each, that are held to their operators.
Expected<ModelCheck> check_model(const Graph& graph, Compiled& fused, Compiled& unfused,
                                 const CheckOptions& options, std::span<const Tensor> inputs);

}  // namespace opweld
