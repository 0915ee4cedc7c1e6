// Schedules mix types freely, each operator in its compute type; but some operators have generated
// code for some types only, and are calls in others.
#include "fusion/legality/legality.h"
#include "ops/op.h"

namespace opweld {

namespace {

// The type for which no schedule has the operator; nothing if there is one for its type.
std::optional<DType> unserved_type(const Node& node) {
  const FusionTrait trait = op_def(node).trait;
  const DType dtype = node.result()->dtype();
  if (trait == FusionTrait::Contract && !is_float(dtype)) return dtype;
  if (trait == FusionTrait::Attention && compute_dtype(dtype) != DType::F32) return dtype;
  return std::nullopt;
}

}  // namespace

Legality check_dtype(const Group& producer, const Group& consumer) {
  for (const Group* group : {&producer, &consumer}) {
    for (const Node* node : group->nodes) {
      if (const auto dtype = unserved_type(*node)) {
        return Refusal{
            ReasonCode::UnservedType,
            fmt::format("{} of {} is run by a call", node->display_name(), to_string(*dtype))};
      }
    }
  }
  return std::nullopt;
}

}  // namespace opweld
