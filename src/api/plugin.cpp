#include "opweld/plugin.h"

#include "plugin/plugin.h"

namespace opweld {

namespace {

PluginInfo info_of(const Plugin& plugin) {
  PluginInfo info{plugin.name, plugin.version, plugin.path, {}};
  for (const OpDef* def : plugin.operators) info.operators.emplace_back(def->name);
  return info;
}

}  // namespace

Result<PluginInfo> load_plugin(const std::string& path) {
  const auto plugin = load_plugin_library(path);
  if (!plugin) return plugin.error();
  return info_of(**plugin);
}

std::vector<PluginInfo> loaded_plugins() {
  std::vector<PluginInfo> infos;
  for (const Plugin* plugin : plugin_libraries()) infos.push_back(info_of(*plugin));
  return infos;
}

}  // namespace opweld
