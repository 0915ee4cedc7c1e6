// opweld operators: what a model may be made of.
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "compiler/plugins.h"
#include "compiler/subcommands.h"
#include "import/onnx/import.h"
#include "plugin/plugin.h"

namespace opweld::cli {

namespace {

// How the planner sees a custom operator.
std::string_view form_of(const OpDef& def) {
  if (def.trait == FusionTrait::Pointwise) return "expression";
  return def.trait == FusionTrait::Composite ? "body" : "opaque";
}

nlohmann::ordered_json to_json(const Plugin& plugin) {
  nlohmann::ordered_json operators = nlohmann::ordered_json::array();
  for (const OpDef* def : plugin.operators) {
    operators.push_back({{"name", def->name}, {"form", form_of(*def)}, {"summary", def->summary}});
  }
  return {{"name", plugin.name},
          {"version", plugin.version},
          {"path", plugin.path},
          {"operators", std::move(operators)}};
}

void print(const Plugin& plugin) {
  fmt::print("operators of plugin '{}'{}{} ({}):\n", plugin.name, plugin.version.empty() ? "" : " ",
             plugin.version, plugin.path);
  for (const OpDef* def : plugin.operators) {
    fmt::print("  {}  [{}]{}{}\n", def->name, form_of(*def), def->summary.empty() ? "" : "  ",
               def->summary);
  }
}

}  // namespace

Status list_operators(const OperatorsArguments& arguments) {
  OPWELD_CHECK(load_plugins(arguments.plugins));
  const Supported supported = supported_by_import();
  const std::vector<const Plugin*> plugins = plugin_libraries();
  if (arguments.json) {
    nlohmann::ordered_json report = {{"operators", supported.operators},
                                     {"element_types", supported.element_types},
                                     {"plugins", nlohmann::ordered_json::array()}};
    for (const Plugin* plugin : plugins) report["plugins"].push_back(to_json(*plugin));
    fmt::print("{}\n", report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return {};
  }
  fmt::print("element types:\n  {}\noperators:\n", fmt::join(supported.element_types, ", "));
  for (const std::string& name : supported.operators) fmt::print("  {}\n", name);
  for (const Plugin* plugin : plugins) print(*plugin);
  return {};
}

}  // namespace opweld::cli
