// Plugins: shared libraries whose operators join the registry. opweld/custom_op.h is what they are
// written against.
#pragma once

#include <string>
#include <vector>

#include "ops/op.h"
#include "support/expected.h"

namespace opweld {

struct Plugin {
  std::string name;
  std::string version;
  std::string path;  // absolute
  std::vector<const OpDef*> operators;
};

// Loads a library and registers its operators, all or none; the answer lives as long as the
// process. For one that is loaded already, the same answer. Any thread may call this.
Expected<const Plugin*> load_plugin_library(const std::string& path);

// In the order in which they were loaded.
std::vector<const Plugin*> plugin_libraries();

}  // namespace opweld
