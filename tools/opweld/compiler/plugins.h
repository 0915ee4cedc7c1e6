// Plugins with custom operators, which have to be loaded before a model is.
#pragma once

#include <string>
#include <vector>

#include "support/expected.h"

namespace opweld::cli {

// For the rest of the process.
Status load_plugins(const std::vector<std::string>& plugins);

}  // namespace opweld::cli
