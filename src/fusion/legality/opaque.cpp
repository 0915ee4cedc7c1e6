// An operator that is a call has no inside that another could join.
#include "fusion/legality/legality.h"
#include "ops/op.h"
#include "ops/register.h"

namespace opweld {

Legality check_opaque(const Group& producer, const Group& consumer) {
  for (const Group* group : {&producer, &consumer}) {
    if (group->kind != KernelKind::Extern) continue;
    const Node& node = *group->nodes.front();
    const std::string advice = what_to_declare(op_def(node));
    return Refusal{ReasonCode::Opaque, fmt::format("{} is run by a call{}{}", node.display_name(),
                                                   advice.empty() ? "" : ": ", advice)};
  }
  return std::nullopt;
}

}  // namespace opweld
