// The subcommands, each in a file of its own.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "CLI/CLI.hpp"
#include "compiling_half.h"
#include "support/expected.h"

namespace opweld::cli {

// A subcommand adds its flags and gives back what runs it.
using Command = std::function<Status()>;

// A subcommand that the compiling half runs.
template <typename Arguments>
Command handed_over(std::shared_ptr<Arguments> arguments,
                    Status (*CompilingHalf::*subcommand)(const Arguments&)) {
  return [arguments = std::move(arguments), subcommand]() -> Status {
    OPWELD_TRY(const CompilingHalf* const half, compiling_half());
    return (half->*subcommand)(*arguments);
  };
}

// A subcommand that takes a compiled model by itself, and leaves others to the compiling half.
template <typename Arguments>
Command of_either(std::shared_ptr<Arguments> arguments, Status (*of_compiled)(const Arguments&),
                  Status (*CompilingHalf::*subcommand)(const Arguments&)) {
  return [arguments, of_compiled, other = handed_over(arguments, subcommand)]() -> Status {
    return is_compiled_file(arguments->model.model) ? of_compiled(*arguments) : other();
  };
}

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
