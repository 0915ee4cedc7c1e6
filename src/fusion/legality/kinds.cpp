// No schedule holds both kinds: a map that is computed, then a matmul; a reduction behind an
// attention.
#include "fusion/legality/legality.h"

namespace opweld {

Legality check_kinds(const Group& producer, const Group& consumer) {
  if (kind_together(producer, consumer)) return std::nullopt;
  return Refusal{ReasonCode::Domain,
                 fmt::format("no schedule holds {} followed by {}", to_string(producer.kind),
                             to_string(consumer.kind))};
}

}  // namespace opweld
