// Where the buffers of a task lie in the scratch memory of its thread. Private to this folder.
#pragma once

#include <vector>

#include "support/dim.h"
#include "tile/tile_ir.h"

namespace opweld::cpu {

// Buffers that are needed one after the other share memory (tile/buffer_lifetimes.h): what the
// second writes is then in the near cache already, and the third finds the first's lines.
struct BufferPlaces {
  std::vector<Dim> offsets;  // by buffer; 0 for those in registers
  Dim bytes;                 // of them all, and of the key of what is kept, which lies before them
};

BufferPlaces place_buffers(const tile::TileProgram& program);

}  // namespace opweld::cpu
