// Did a kernel write what its operators give?
//
// Two references stand beside what it wrote. The first is each operator's own definition in f64
// from the kernel's inputs to its outputs, rounded nowhere. A kernel that agrees with it is right.
// But where values are halves, a kernel may differ from it by more than its outputs' tolerance and
// be right all the same: a chain rounds between its stages, and what is 70000 in f64 is infinite in
// f16. So there is a second one: the kernel's primitive operators in f64, each result rounded
// exactly where the kernel rounds it (tile/rounding.h). Sums, means and elementary functions are
// f64 in that as well: what is lost of a sum in the compute type is found. Where such a result is
// rounded to a half and lies so near to the middle of two that f32 arithmetic decides, the kernel
// may go on with either; what that comes to in what it writes is granted on top of the tolerance.
#pragma once

#include <span>
#include <vector>

#include "fusion/plan.h"
#include "graph/tensor.h"
#include "runtime/compare.h"
#include "support/expected.h"
#include "tile/lower.h"

namespace opweld {

// One comparison for each output, by default_tolerance() of its dtype: with the first reference
// where all outputs agree with that, else with the second. A value within rounding of the largest
// one of a type may be that or infinite, there and in whatever the kernel makes of it.
//
// `inputs` are in the order of kernel.inputs, `outputs` in that of kernel.outputs; constants must
// still be in the graph. `options` are those that the kernel was lowered with, `sizes` the values
// of the graph's symbols.
Expected<std::vector<Comparison>> judge_kernel(const Kernel& kernel,
                                               const tile::LowerOptions& options,
                                               const Bindings& sizes,
                                               std::span<const Tensor> inputs,
                                               std::span<const Tensor> outputs);

}  // namespace opweld
