// Key and value heads that are repeated for the queries which share them.
#pragma once

#include "graph/graph.h"

namespace opweld {

// [B, Hkv, T, D] if the value is that with every head repeated for G queries in a row, [B, Hkv * G,
// T, D]; else the value itself. In one of the spellings
//   reshape to [B, Hkv, 1, T, D]; expand, tile or concat with itself to [B, Hkv, G, T, D]; reshape
//   expand or tile of a single head, Hkv = 1
//   gather along the heads by a constant 0 .. 0 1 .. 1 2 ..
// Heads repeated as a whole (0 1 2 0 1 2) are something else.
Value* without_repeated_heads(Value* value);

}  // namespace opweld
