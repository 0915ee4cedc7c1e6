// Whether a compiled model is right.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace opweld {

// How far an output of the model is from what it should be. Differences are the largest of any
// element.
struct OutputCheck {
  std::string name;
  double to_unfused = 0;    // to the model with every operator a kernel
  double to_reference = 0;  // to the model evaluated in double precision
  // The same as a part of the dtype's tolerance for one kernel (docs/numerics.md): at most 1 where
  // every element is within it. Through a whole model of f16 or bf16, roundings add up to more.
  double of_tolerance = 0;
  std::string fault;  // what differs; empty: it agrees
};

// How far a kernel is from the operators that it stands for, in double precision, on the very
// inputs that it had.
struct KernelCheck {
  std::string name;       // "FusedKernel_3", as in Account
  std::string operators;  // "MatMul + Add"
  std::string layer;      // empty where it belongs to none
  double largest_difference = 0;
  std::string fault;  // "node '/dense/Add': 2 of 8 elements differ; ..."; empty: it agrees
};

// What has to agree: each kernel with its operators; the rewritten graph with the model, both in
// double precision; where no rounding of halves adds up, the outputs from end to end; and the code
// of custom operators with the expression or body by which they fuse. In strict numerics fused
// outputs are the bits of unfused ones.
struct Verification {
  std::vector<OutputCheck> outputs;
  std::vector<KernelCheck> kernels;   // in the order in which they ran
  std::int64_t custom_operators = 0;  // whose code was compared with what they declare
  // What differs first, and where: the output, then the first kernel that is wrong. Empty: all
  // agrees.
  std::string fault;

  [[nodiscard]] bool ok() const { return fault.empty(); }
};

}  // namespace opweld
