// opweld run-cases: many small models against known outputs, in one process.
#include <memory>

#include "commands.h"
#include "model_options.h"

namespace opweld::cli {

Command add_run_cases(CLI::App& app) {
  auto arguments = std::make_shared<RunCasesArguments>();
  app.add_option("list", arguments->list, "JSON list of cases")->required();
  add_plugin_option(app, arguments->plugins);
  app.add_option("--threads", arguments->threads, "Threads to run on")->check(CLI::Range(1, 1024));
  app.add_flag("--json", arguments->json, "One line of JSON a case and level (the only form)");
  return handed_over(arguments, &CompilingHalf::run_cases);
}

}  // namespace opweld::cli
