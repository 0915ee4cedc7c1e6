// Tuning that is not guessing: block sizes by measurement.
//
// The model is compiled and run once, to see what its kernels read. Then for each class of kernels
// that have a choice of block sizes, those that take the most time first: the kernels of the class
// are run by themselves, with each choice in turn against the default; what is faster by a margin
// is raced a second time, so that luck does not pass for speed, and then kept for later
// compilations. A choice whose results are not the default's, up to rounding where it changes the
// order of a sum and to the bit where it does not, is never taken.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "compile.h"

namespace opweld {

struct TuneOptions {
  double seconds = 60;  // to measure for; what is not done by then keeps the default for now
  std::string folder;   // that choices are kept in as they are made; "": none
  // A line of text for each class; may be empty.
  std::function<void(const std::string& line)> progress;
};

// What is known of this machine in the end: `options.tuning` and what was found. Classes that the
// former has at the sizes of these inputs are not measured again. `inputs` are those of the graph;
// an error is one of compiling or running it, or of writing to the folder.
Expected<Tuning> tune(const Graph& graph, const CompileOptions& options,
                      std::span<const Tensor> inputs, const TuneOptions& tuning);

// What was measured on this machine before, from the cache folder; null, and nothing is looked for,
// where OPWELD_TUNED is 0.
std::shared_ptr<const Tuning> stored_tuning(std::string_view target_name);

}  // namespace opweld
