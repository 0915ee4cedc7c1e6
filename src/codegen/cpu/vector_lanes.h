// How many lanes the vectors of a loop have. Private to this folder.
#pragma once

#include "tile/tile_ir.h"

namespace opweld::cpu {

// What the loop asks for; else as many lanes as fill a vector of `vector_bits` with the widest data
// that differs between lanes. That is 4 bytes, or 8 when f64 or i64 data is loaded, stored or kept;
// i64 arithmetic on indices does not count.
int lanes_of(const tile::TileProgram& program, const tile::ForLoop& loop, int vector_bits);

}  // namespace opweld::cpu
