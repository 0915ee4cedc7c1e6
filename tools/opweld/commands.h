// The subcommands, each in a file of its own.
#pragma once

#include <functional>

#include "CLI/CLI.hpp"
#include "support/expected.h"

namespace opweld::cli {

// A subcommand adds its flags and gives back what runs it.
using Command = std::function<Status()>;

Command add_run(CLI::App& app);
Command add_compile(CLI::App& app);
Command add_explain(CLI::App& app);
Command add_report(CLI::App& app);
Command add_verify(CLI::App& app);
Command add_bench(CLI::App& app);
Command add_info(CLI::App& app);
Command add_diff(CLI::App& app);
Command add_doctor(CLI::App& app);
Command add_reasons(CLI::App& app);
Command add_operators(CLI::App& app);
Command add_run_cases(CLI::App& app);

}  // namespace opweld::cli
