// Hardware that is not here, and that plans are made and counted for all the same: `opweld explain
// --target=ascend-910b`. No code is generated for any of it.
//
// Each figure has its source beside it in planned.cpp; docs/targets.md has them as a table, with
// how sure each is.
#pragma once

#include <span>
#include <string>

#include "target/target.h"

namespace opweld {

// ascend-910b, cuda-sm90.
std::span<const Target> planned_targets();

// Their names, with commas between.
std::string planned_names();

}  // namespace opweld
