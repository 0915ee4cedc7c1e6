// The time line that --trace=FILE asks for.
#pragma once

#include <string>

#include "runtime/executable.h"
#include "support/expected.h"

namespace opweld::cli {

// Of a run with RunOptions::trace at these sizes, in Chrome's trace format.
Status write_trace(const std::string& file, const Executable& executable, const Bindings& sizes,
                   const RunStats& stats);

}  // namespace opweld::cli
