// What `opweld explain` prints of a compiled file.
#pragma once

#include <string>

#include "support/expected.h"

namespace opweld::cli {

// An account in JSON, as explain --json gives it: the kernels, and what was fused. Fails where the
// text is none.
Status print_stored_account(const std::string& account);

}  // namespace opweld::cli
