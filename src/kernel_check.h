// Holds the kernels of a model one by one to the operators they stand for.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compile.h"
#include "target/target.h"
#include "tile/lower.h"

namespace opweld {

// Of one kernel that ran.
struct KernelVerdict {
  std::string kernel;             // "FusedKernel_3"
  std::string operators;          // "MatMul + Add"
  std::string layer;              // empty where it belongs to none
  double largest_difference = 0;  // of an element of any output to what it should be
  std::string fault;              // "node '/dense/Add': 2 of 8 elements differ; ..."; empty: none
};

struct CheckedRun {
  std::vector<Tensor> outputs;  // of the model
  std::vector<KernelVerdict> kernels;
};

// Runs the model once, which must have been compiled with CompileOptions::keep_constants, for
// `target` and with or without strict numerics. Each kernel is judged (tile/kernel_reference.h)
// by what its operators give on the inputs that the kernel itself was given, so that neither
// rounding nor a fault of an earlier kernel tells against it.
Expected<CheckedRun> check_kernels(Compiled& compiled, const Target& target, bool strict,
                                   std::span<const Tensor> inputs);

}  // namespace opweld
