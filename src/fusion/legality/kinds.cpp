// No schedule holds both kinds: two matmuls, a reduction inside a matmul's epilogue.
#include "fusion/legality/legality.h"

namespace opweld {

Legality check_kinds(const Group& producer, const Group& consumer) {
  if (merged_kind(producer.kind, consumer.kind, producer.only_views)) return std::nullopt;
  return Refusal{ReasonCode::Domain,
                 fmt::format("no schedule holds {} followed by {}", to_string(producer.kind),
                             to_string(consumer.kind))};
}

}  // namespace opweld
