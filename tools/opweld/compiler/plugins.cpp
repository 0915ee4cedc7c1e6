#include "compiler/plugins.h"

#include "plugin/plugin.h"

namespace opweld::cli {

Status load_plugins(const std::vector<std::string>& plugins) {
  for (const std::string& path : plugins) {
    if (const auto plugin = load_plugin_library(path); !plugin) {
      return tl::unexpected(plugin.error());
    }
  }
  return {};
}

}  // namespace opweld::cli
