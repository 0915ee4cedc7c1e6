// A stream is the user's word: operators that were put on two of them never share a kernel. One
// that was put on none goes with either.
#include <algorithm>

#include "fusion/legality/legality.h"
#include "ops/stored_weights.h"

namespace opweld {

namespace {

// Empty where no operator of the group has one. All that have one agree, or they would not be one
// group; what only widens weights is part of their matmul, wherever it was put.
std::string_view stream_of(const Group& group) {
  const auto named = std::ranges::find_if(group.nodes, [](const Node* node) {
    return !node->source().stream.empty() && !is_weight_prologue(*node);
  });
  return named == group.nodes.end() ? std::string_view() : (*named)->source().stream;
}

}  // namespace

Legality check_stream(const Group& producer, const Group& consumer) {
  const std::string_view from = stream_of(producer);
  const std::string_view to = stream_of(consumer);
  if (from.empty() || to.empty() || from == to) return std::nullopt;
  return Refusal{ReasonCode::Stream, fmt::format("stream '{}' meets stream '{}'", from, to)};
}

}  // namespace opweld
