#include "plugins.h"

#include "plugin/plugin.h"

namespace opweld::cli {

void add_plugin_option(CLI::App& command, std::vector<std::string>& plugins) {
  command
      .add_option("--plugin", plugins,
                  "A shared library with custom operators (opweld/custom_op.h); repeatable. Its "
                  "code is run: load none that you do not trust")
      ->allow_extra_args(false);
}

Status load_plugins(const std::vector<std::string>& plugins) {
  for (const std::string& path : plugins) {
    if (const auto plugin = load_plugin_library(path); !plugin) {
      return tl::unexpected(plugin.error());
    }
  }
  return {};
}

}  // namespace opweld::cli
