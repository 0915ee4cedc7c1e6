// Where a kernel rounds values that it goes on with. Schedules decide that; this tells it to
// whoever computes the same in another way, as the reference does that `opweld verify` holds
// kernels to. docs/numerics.md has the rules in words.
#pragma once

#include <map>
#include <set>
#include <utility>

#include "tile/lower.h"

namespace opweld::tile {

// Everything that is not listed here is rounded to its compute type, operator by operator, and to
// its dtype where it is written.
struct Rounding {
  // Nodes that find an operand as if it had been stored and read again.
  std::set<std::pair<const Value*, const Node*>> as_stored;
  // Matmuls and attentions on a matrix unit: to them subnormals of operands are zero.
  std::set<const Node*> on_matrix_unit;
  // Of such an attention, how many keys it takes at a time (ReferenceOptions::bf16_weight_keys).
  std::map<const Node*, std::int64_t> bf16_weight_keys;
};

// `primitives`: the kernel's group after expand_composites(). `options`: those that it was lowered
// with. `sizes`: values of its symbols in the run in question.
Rounding rounding_of(const Graph& primitives, KernelKind kind, const LowerOptions& options,
                     const Bindings& sizes);

}  // namespace opweld::tile
