// How a kernel wants a constant matrix laid out; runtime/pack.h says what it comes to in memory.
#pragma once

#include <vector>

namespace opweld {

// Columns that belong together by parts: runs of `run` of them are of part 0, 1, ... in turn.
struct PackedStretch {
  int columns = 0;  // a multiple of parts * run
  int run = 0;

  bool operator==(const PackedStretch&) const = default;
};

struct PackedForm {
  int columns = 0;  // of a panel; 0: the matrix is read as it is
  bool from_transposed = false;
  int parts = 1;
  std::vector<PackedStretch> stretches = {};
  // 1, or rows of the depth go in pairs and zeros pad it to a multiple of this even number.
  int paired_depth = 1;

  [[nodiscard]] bool in_pairs() const { return paired_depth > 1; }
  bool operator==(const PackedForm&) const = default;
};

}  // namespace opweld
