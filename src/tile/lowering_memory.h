// What lowering one group finds out that holds for others.
#pragma once

#include "tile/expansions.h"
#include "tile/schedules/chain_shares.h"

namespace opweld::tile {

// Kept by who lowers many groups of one model. Answers are those that would be found anew.
struct LoweringMemory {
  Expansions expansions;
  ChainShares chain_shares;
};

}  // namespace opweld::tile
