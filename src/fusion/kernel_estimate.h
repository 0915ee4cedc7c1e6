// What is known of a kernel before it is made machine code.
#pragma once

#include <functional>

#include "fusion/plan.h"
#include "fusion/pressure.h"
#include "fusion/work.h"
#include "support/expected.h"

namespace opweld {

struct KernelEstimate {
  Pressure pressure;
  // For sizes that are known; a symbol that the bindings lack is an error.
  std::function<Expected<Work>(const Bindings& sizes)> work;
};

// What the schedule of this kind makes of the group; where none serves it, the error says why not.
// It names no node: what it says of a group it says of all that have the group's structure.
using GroupOracle = std::function<Expected<KernelEstimate>(const Graph& group, KernelKind kind)>;

// The same, asked of a kernel whose boundary has been found.
using KernelOracle = std::function<Expected<KernelEstimate>(const Kernel& kernel)>;

// Asks once for each structure. The nodes it was asked about must live, and stay as they are, for
// as long as it is asked.
KernelOracle remembered(GroupOracle oracle);

}  // namespace opweld
