// Plugins: shared libraries with custom operators, as opweld/custom_op.h describes them.
#pragma once

#include <string>
#include <vector>

#include "opweld/export.h"
#include "opweld/result.h"

namespace opweld {

struct PluginInfo {
  std::string name;
  std::string version;                 // empty if it tells none
  std::string path;                    // absolute
  std::vector<std::string> operators;  // "com.example.Squash", in the order of the plugin
};

// Loads a library and makes its operators known: to models that are loaded or built from then on,
// in the whole process, for as long as it lives. All of its operators become known or, after an
// error, none. Loading a library again gives the same answer and changes nothing. Any thread may
// call this, also while others compile and run.
//
// Errors name the plugin, the operator and what to do: a file that is no plugin or is built for
// another version of the interface, a declaration that is incomplete or contradicts itself, a name
// that is taken.
OPWELD_API Result<PluginInfo> load_plugin(const std::string& path);

// In the order in which they were loaded.
OPWELD_API std::vector<PluginInfo> loaded_plugins();

}  // namespace opweld
