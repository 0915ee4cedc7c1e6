// opweld operators: what a model may be made of.
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "import/onnx/import.h"

namespace opweld::cli {

Command add_operators(CLI::App& app) {
  app.footer("`opweld info MODEL` tells which operators of a model are not among them.");
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "Print JSON for scripts: {\"operators\", \"element_types\"}");
  return [json]() -> Status {
    const Supported supported = supported_by_import();
    if (*json) {
      const nlohmann::ordered_json report = {{"operators", supported.operators},
                                             {"element_types", supported.element_types}};
      fmt::print("{}\n", report.dump());
      return {};
    }
    fmt::print("element types:\n  {}\noperators:\n", fmt::join(supported.element_types, ", "));
    for (const std::string& name : supported.operators) fmt::print("  {}\n", name);
    return {};
  };
}

}  // namespace opweld::cli
