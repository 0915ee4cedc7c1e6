// Operands of one kernel agree on the memory format of what they share.
#include "fusion/legality/legality.h"

namespace opweld {

Legality check_format(const MergeCandidate& candidate, const PlanOptions&) {
  const Format format = candidate.value->type().format;
  for (const Value* output : candidate.merged.outputs) {
    const Format other = output->type().format;
    if (format != Format::Plain && other != Format::Plain && format != other) {
      return Refusal{ReasonCode::Format,
                     fmt::format("{} meets {}", to_string(format), to_string(other))};
    }
  }
  return std::nullopt;
}

}  // namespace opweld
