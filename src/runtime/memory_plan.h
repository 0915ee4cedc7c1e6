// Where the intermediate values of a run live.
//
// Values that kernels write and only kernels read share one arena. A value's place is taken for as
// long as it is live: from the step that writes it to the last step that reads it. Sizes are
// symbolic in the graph; a plan is made for the sizes of one set of symbol values and is quick to
// make.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "support/expected.h"
#include "support/memory_block.h"

namespace opweld {

// One value that wants a place in the arena. Steps are kernels in execution order.
struct Lifetime {
  std::int64_t bytes = 0;
  int first_step = 0;  // writes it
  int last_step = 0;   // reads it last; at least first_step
  // The value whose place this one may take over, because the kernel of first_step reads each of
  // its elements before it writes the same element of this one; -1 for none. It must have the same
  // size and its last step must be this one's first.
  int in_place_of = -1;
};

struct MemoryPlan {
  std::vector<std::int64_t> offsets;  // by value, multiples of kArenaAlignment
  std::int64_t arena_bytes = 0;
};

inline constexpr std::int64_t kArenaAlignment = kBlockAlignment;

// Largest first, each at the lowest offset that no value live at the same time covers. Fails when
// the total does not fit in 63 bits.
Expected<MemoryPlan> plan_memory(std::span<const Lifetime> values);

// The most bytes that are live in any one step: no plan for these lifetimes can do with less. What
// takes over a place counts once.
std::int64_t most_live_bytes(std::span<const Lifetime> values);

}  // namespace opweld
