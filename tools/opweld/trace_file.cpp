#include "trace_file.h"

#include <fstream>

#include "report/trace.h"

namespace opweld::cli {

void add_trace_option(CLI::App& command, std::string& file) {
  command.add_option(
      "--trace", file,
      "Write a time line of one run to this file, launches and each thread's part of "
      "every kernel, for chrome://tracing or Perfetto");
}

Status write_trace(const std::string& file, const Executable& executable, const Bindings& sizes,
                   const RunStats& stats) {
  std::ofstream out(file);
  out << chrome_trace(executable.plan(sizes), stats, executable.threads()) << "\n";
  if (!out.flush()) return fail("cannot write '{}'", file);
  return {};
}

}  // namespace opweld::cli
