// opweld doctor: what Opweld runs with, and what of it is wrong.
#include <memory>
#include <vector>

#include "both/findings.h"
#include "commands.h"

namespace opweld::cli {

namespace {

// Nearly all that there is to look at belongs to the compiler; where that is not there, that is
// what is wrong.
Status examine(const DoctorArguments& arguments) {
  const auto half = compiling_half();
  if (half) return (*half)->doctor(arguments);
  const std::vector<Finding> findings = {{"version", OPWELD_VERSION},
                                         {"compiler", "none", "", half.error().message}};
  return tell_findings(findings, arguments.json);
}

}  // namespace

Command add_doctor(CLI::App& app) {
  auto arguments = std::make_shared<DoctorArguments>();
  app.add_flag("--json", arguments->json, "Print JSON for scripts");
  app.footer("Exit code: 0 where all is well, 1 where something is wrong.");
  return [arguments] { return examine(*arguments); };
}

}  // namespace opweld::cli
