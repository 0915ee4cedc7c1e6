// --trace=FILE of the subcommands that run a model.
#pragma once

#include <span>
#include <string>

#include "CLI/CLI.hpp"
#include "runtime/executable.h"
#include "support/expected.h"

namespace opweld::cli {

void add_trace_option(CLI::App& command, std::string& file);

// Of a run with RunOptions::trace at these sizes, in Chrome's trace format.
Status write_trace(const std::string& file, const Executable& executable, const Bindings& sizes,
                   const RunStats& stats);

}  // namespace opweld::cli
