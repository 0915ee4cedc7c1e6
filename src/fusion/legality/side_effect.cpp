// What is written in place must be there before it is read.
//
// Operators are functions of their operands but for one: a tensor_scatter whose cache lies in place
// (rewrite/in_place.h) writes into memory that is the caller's. It may well share a kernel with
// what makes the rows that it writes. What reads the cache behind it would find rows that another
// task has yet to write, as tasks of a kernel do not wait for each other, so that is another
// kernel.
#include <algorithm>

#include "fusion/legality/legality.h"

namespace opweld {

Legality check_side_effect(const Group& producer, const Group& consumer) {
  for (const Node* node : producer.nodes) {
    if (!scatters_in_place(*node)) continue;
    const auto reads = std::ranges::find_if(node->result()->uses(), [&](const Use& use) {
      return std::ranges::find(consumer.nodes, use.node) != consumer.nodes.end();
    });
    if (reads == node->result()->uses().end()) continue;
    return Refusal{ReasonCode::SideEffect,
                   fmt::format("{} writes into a cache in place, and {} reads it",
                               node->display_name(), reads->node->display_name())};
  }
  return std::nullopt;
}

}  // namespace opweld
