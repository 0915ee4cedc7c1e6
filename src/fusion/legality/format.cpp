// Memory formats: where channels go, in front of the positions (NCHW) or behind them (NHWC).
//
// Models convert by transposes, which are index maps like any other: the kernel on either side
// reads or writes through them, if its schedule can. Where it cannot, the operator behind the
// conversion has no other space of its own that would speak against it, and it is the order of
// axes that keeps the two apart.
#include <algorithm>

#include "fusion/legality/legality.h"
#include "ops/op.h"

namespace opweld {

namespace {

// What a transpose of images makes of the format of its operand.
std::optional<std::pair<Format, Format>> conversion_by(const Node& node) {
  constexpr std::size_t kLeastRank = 4;
  if (node.op() != "transpose") return std::nullopt;
  const Ints& permutation = node.attributes().ints("permutation");
  if (permutation.size() < kLeastRank) return std::nullopt;
  Ints channels_last(permutation.size());
  Ints channels_first(permutation.size());
  const auto last = static_cast<std::int64_t>(permutation.size()) - 1;
  for (std::int64_t axis = 1; axis <= last; ++axis) {
    channels_last[static_cast<std::size_t>(axis)] = axis == last ? 1 : axis + 1;
    channels_first[static_cast<std::size_t>(axis)] = axis == 1 ? last : axis - 1;
  }
  if (permutation == channels_last) return std::pair(Format::NCHW, Format::NHWC);
  if (permutation == channels_first) return std::pair(Format::NHWC, Format::NCHW);
  return std::nullopt;
}

// The transpose at the edge, if that is where the operators beside it disagree.
const Node* conversion_at(const MergeCandidate& candidate) {
  const Node* const producer = candidate.value->producer();
  if (producer == nullptr) return nullptr;  // siblings, which share an input
  for (const Use& use : candidate.value->uses()) {
    const auto& nodes = candidate.consumer.nodes;
    if (std::ranges::find(nodes, use.node) == nodes.end()) continue;
    if (conversion_by(*use.node)) return use.node;
    const bool walks_any_space = op_def(*use.node).trait == FusionTrait::Pointwise;
    if (walks_any_space && conversion_by(*producer)) return producer;
  }
  return nullptr;
}

std::string meeting(Format one, Format other) {
  return fmt::format("{} meets {}", to_string(one), to_string(other));
}

}  // namespace

Legality check_format(const MergeCandidate& candidate, const PlanOptions&) {
  const Format format = candidate.value->type().format;
  for (const Value* output : candidate.merged.outputs) {
    const Format other = output->type().format;
    if (format != Format::Plain && other != Format::Plain && format != other) {
      return Refusal{ReasonCode::Format, meeting(format, other)};
    }
  }
  return std::nullopt;
}

Legality check_conversion(const MergeCandidate& candidate, const Expected<KernelEstimate>& kernel) {
  if (kernel) return std::nullopt;
  const Node* const conversion = conversion_at(candidate);
  if (conversion == nullptr) return std::nullopt;
  const auto [from, to] = *conversion_by(*conversion);
  return Refusal{ReasonCode::Format,
                 fmt::format("{} at {}; {}", meeting(from, to), conversion->display_name(),
                             kernel.error().message)};
}

}  // namespace opweld
