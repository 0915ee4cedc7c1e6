#include "both/trace_file.h"

#include <fstream>

#include "report/trace.h"

namespace opweld::cli {

Status write_trace(const std::string& file, const Executable& executable, const Bindings& sizes,
                   const RunStats& stats) {
  std::ofstream out(file);
  out << chrome_trace(executable.plan(sizes), stats, executable.threads()) << "\n";
  if (!out.flush()) return fail("cannot write '{}'", file);
  return {};
}

}  // namespace opweld::cli
