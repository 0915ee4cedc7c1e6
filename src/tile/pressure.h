// What one task of a kernel takes of the chip: the measure behind the reason "pressure".
#pragma once

#include "target/target.h"
#include "tile/tile_ir.h"

namespace opweld::tile {

struct Pressure {
  // Bytes of the cache buffers, against Target::on_chip_bytes.
  Dim cache_bytes = 0;
  // The most vector values that are needed at one time, against Target::vector_registers. An
  // estimate: the code generator orders operations as the program does, but moves what is
  // invariant.
  int vector_registers = 0;
};

// Vector registers are counted over the statements in order:
// - register buffers hold theirs throughout;
// - in a vector loop, what differs between lanes lives from where it is computed to its last use;
//   what is needed inside a nested loop and made outside lives until that loop ends;
// - reductions hold their accumulators from the start of the loop they run over to its end;
// - a dot holds the smaller side of its operands' vectors, and one of the other.
Pressure estimate_pressure(const TileProgram& program, const Target& target);

}  // namespace opweld::tile
