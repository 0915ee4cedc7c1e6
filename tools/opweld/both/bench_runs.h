// What opweld bench does with models that can be run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "graph/tensor.h"
#include "runtime/executable.h"
#include "support/expected.h"

namespace opweld::cli {

// A model that is ready to run, and what it took to make it so.
struct BenchSubject {
  // What compiling had not to do again.
  struct Found {
    bool plan = false;
    int functions = 0;  // of all_functions
    int all_functions = 0;
  };

  std::string level;  // of fusion
  Executable executable;
  double seconds = 0;                                  // to compile or to load it
  std::vector<std::pair<std::string, double>> passes;  // of those
  Found found = {};
  // By version, lines about kernels with block sizes that were measured.
  std::vector<std::vector<std::string>> tuning = {};
};

// That the options do not contradict each other.
Status check_arguments(const BenchArguments& arguments);

// Times them, taking turns, or the first one whenever it is told to, and prints what came of it.
Status bench_runs(const BenchArguments& arguments, std::vector<BenchSubject> subjects,
                  std::vector<Tensor> tensors);

}  // namespace opweld::cli
