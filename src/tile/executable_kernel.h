// From a lowered kernel to what an executable runs, but for its code.
#pragma once

#include "runtime/executable.h"
#include "tile/lower.h"

namespace opweld::tile {

// How the param wants its constant laid out.
PackedForm packed_form(const Param& param);

// With the program, and the constants in the order of its params.
ExecutableKernel executable_kernel(LoweredKernel lowered);

}  // namespace opweld::tile
