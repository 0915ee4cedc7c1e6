// opweld info: what a model is.
#include <memory>

#include "commands.h"
#include "model_options.h"

namespace opweld::cli {

Command add_info(CLI::App& app) {
  auto arguments = std::make_shared<InfoArguments>();
  app.add_option("model", arguments->model, "ONNX file")->required();
  add_plugin_option(app, arguments->plugins);
  app.add_flag("--json", arguments->json, "Print JSON for scripts");
  return handed_over(arguments, &CompilingHalf::info);
}

}  // namespace opweld::cli
