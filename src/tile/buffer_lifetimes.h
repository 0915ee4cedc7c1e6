// When a task needs what its buffers hold. Those that it needs one after the other take no more of
// the chip than the larger of them, and may lie in one place.
#pragma once

#include <cstddef>
#include <vector>

#include "tile/tile_ir.h"

namespace opweld::tile {

// From the first statement of the body that reads or writes the buffer, in itself or in what is
// nested in it, to the last one.
struct BufferLifetime {
  std::size_t first = 0;
  std::size_t last = 0;

  [[nodiscard]] bool includes(std::size_t statement) const {
    return first <= statement && statement <= last;
  }
  [[nodiscard]] bool overlaps(const BufferLifetime& other) const {
    return first <= other.last && other.first <= last;
  }
};

// By buffer. One that nothing touches lives from the first statement to the last, and so does what
// a Keep leaves for later tasks. Of register buffers this says nothing.
std::vector<BufferLifetime> buffer_lifetimes(const TileProgram& program);

// The most bytes that one task's buffers of that space take at a time.
Dim buffer_bytes(const TileProgram& program, Buffer::Space space);

}  // namespace opweld::tile
