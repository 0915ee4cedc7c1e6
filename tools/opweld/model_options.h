// Flags that several subcommands have.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "arguments.h"

namespace opweld::cli {

void add_model_options(CLI::App& command, ModelOptions& options);
void add_input_options(CLI::App& command, InputOptions& options);
void add_plugin_option(CLI::App& command, std::vector<std::string>& plugins);
void add_trace_option(CLI::App& command, std::string& file);

}  // namespace opweld::cli
