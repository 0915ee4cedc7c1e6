// Size caps: a kernel's tensors are addresses in registers, its nodes are code and compile time.
#include "fusion/legality/legality.h"

namespace opweld {

Legality check_limit(const MergeCandidate& candidate, const PlanOptions& options) {
  const Kernel& kernel = candidate.merged;
  const std::size_t tensors =
      kernel.inputs.size() + kernel.constants.size() + kernel.outputs.size();
  if (tensors > static_cast<std::size_t>(options.max_tensors)) {
    return Refusal{ReasonCode::Limit,
                   fmt::format("{} tensors of at most {}", tensors, options.max_tensors)};
  }
  if (kernel.nodes.size() > static_cast<std::size_t>(options.max_nodes)) {
    return Refusal{ReasonCode::Limit,
                   fmt::format("{} nodes of at most {}", kernel.nodes.size(), options.max_nodes)};
  }
  return std::nullopt;
}

}  // namespace opweld
