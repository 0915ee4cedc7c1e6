// How much of the chip a tile program takes.
#pragma once

#include "fusion/pressure.h"
#include "target/target.h"
#include "tile/lower.h"
#include "tile/tile_ir.h"

namespace opweld::tile {

// Vector registers are counted over the statements in order:
// - register buffers hold theirs throughout;
// - in a vector loop, what differs between lanes lives from where it is computed to its last use;
//   what is needed inside a nested loop and made outside lives until that loop ends;
// - reductions hold their accumulators from the start of the loop they run over to its end;
// - a dot holds the smaller side of its operands' vectors, and one of the other.
Pressure estimate_pressure(const TileProgram& program, const Target& target);
// The same of a kernel, with what its schedule knows of its tasks.
Pressure estimate_pressure(const LoweredKernel& kernel, const Target& target);

}  // namespace opweld::tile
