// How much of the chip a tile program takes.
#pragma once

#include "fusion/pressure.h"
#include "target/target.h"
#include "tile/lower.h"
#include "tile/tile_ir.h"

namespace opweld::tile {

// Vector registers are counted over the statements in order:
// - register buffers hold theirs from where they are first touched to where they are last;
// - in a vector loop, what differs between lanes lives from where it is computed to its last use;
//   what is needed inside a nested loop and made outside lives until that loop ends; what is loaded
//   lives from its first use, since a load stands there, or before the loop that it is used in, and
//   what two statements read is made once;
// - elementary functions hold what their polynomials compute with, twice where further vectors
//   follow, since the second is begun before the first ends; a call holds all registers there are;
// - reductions hold their accumulators from the start of the loop they run over to its end;
// - a dot holds the smaller side of its operands' vectors, and one of the other.
// tests/codegen/spill_test.cpp holds that against what LLVM spills.
Pressure estimate_pressure(const TileProgram& program, const Target& target);
// The same of a kernel, with what its schedule knows of its tasks.
Pressure estimate_pressure(const LoweredKernel& kernel, const Target& target);

}  // namespace opweld::tile
