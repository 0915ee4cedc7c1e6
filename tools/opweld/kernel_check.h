// Holds the kernels of a model one by one to the operators they stand for.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compile.h"
#include "target/target.h"

namespace opweld::cli {

// Each kernel is judged (runtime/kernel_reference.h) by what its operators give on the inputs that
// the kernel itself was given, so that neither rounding nor a fault of an earlier kernel tells
// against it.
class KernelCheck {
 public:
  // What the model was compiled for.
  KernelCheck(const Target& target, bool strict) : target_(target), strict_(strict) {}

  // Runs the model once, which must have been compiled with CompileOptions::keep_constants, and
  // gives its outputs.
  Expected<std::vector<Tensor>> run(Compiled& compiled, std::span<const Tensor> inputs);

  [[nodiscard]] int checked() const { return checked_; }
  [[nodiscard]] int differ() const { return differ_; }
  // "FusedKernel_3 (MatMul + Add), node '/dense/Add': 2 of 8 elements differ; ..."; empty if none.
  [[nodiscard]] const std::string& first_fault() const { return first_fault_; }
  // One line for people.
  [[nodiscard]] std::string summary() const;

 private:
  Status check(const Kernel& kernel, const tile::LowerOptions& options, const Bindings& bindings,
               std::span<const Tensor> inputs, std::span<const Tensor> outputs);

  const Target& target_;
  bool strict_;
  int checked_ = 0;
  int differ_ = 0;
  std::string first_fault_;
};

}  // namespace opweld::cli
