// An operator that is a call has no inside that another could join.
#include "fusion/legality/legality.h"

namespace opweld {

Legality check_opaque(const Group& producer, const Group& consumer) {
  for (const Group* group : {&producer, &consumer}) {
    if (group->kind == KernelKind::Extern) {
      return Refusal{ReasonCode::Opaque,
                     fmt::format("{} is run by a call", group->nodes.front()->display_name())};
    }
  }
  return std::nullopt;
}

}  // namespace opweld
