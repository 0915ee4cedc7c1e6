// What opweld run does with a model that can be run.
#pragma once

#include <vector>

#include "arguments.h"
#include "graph/tensor.h"
#include "runtime/executable.h"
#include "support/expected.h"

namespace opweld::cli {

// Runs it, and keeps or prints its outputs and the time line as the arguments say.
Status run_once(Executable& executable, const std::vector<Tensor>& tensors,
                const RunArguments& arguments);

}  // namespace opweld::cli
