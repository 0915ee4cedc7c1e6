// What opweld doctor looks at.
#pragma once

#include <vector>

#include "both/findings.h"

namespace opweld::cli {

// The variables that Opweld reads, as they are set, and those that look as if it should.
std::vector<Finding> examine_environment();
// The folder that measurements are kept in.
Finding examine_cache();

}  // namespace opweld::cli
