// opweld operators: what a model may be made of.
#include <memory>

#include "commands.h"
#include "model_options.h"

namespace opweld::cli {

Command add_operators(CLI::App& app) {
  app.footer(
      "`opweld info MODEL` tells which operators of a model are not among them.\n"
      "Operators of plugins fuse by their expression or body; opaque ones are calls.");
  auto arguments = std::make_shared<OperatorsArguments>();
  add_plugin_option(app, arguments->plugins);
  app.add_flag("--json", arguments->json,
               "Print JSON for scripts: {\"operators\", \"element_types\", \"plugins\"}");
  return handed_over(arguments, &CompilingHalf::operators);
}

}  // namespace opweld::cli
