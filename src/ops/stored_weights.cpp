#include "ops/stored_weights.h"

#include <unordered_set>

#include "ops/op.h"

namespace opweld {

bool widens_constant(const Node& node) {
  if (node.op() != "cast" || node.result()->dtype() != DType::F32) return false;
  const Value* const stored = node.operand(0);
  const bool is_half = stored->dtype() == DType::F16 || stored->dtype() == DType::BF16;
  return is_half && stored->producer() != nullptr && stored->producer()->op() == "constant";
}

Node* stored_weights(const Value* operand) {
  Node* const producer = operand->producer();
  if (producer == nullptr) return nullptr;
  if (producer->op() == "constant") return producer;
  return is_weight_prologue(*producer) ? producer->operand(0)->producer() : nullptr;
}

bool is_right_operand(const Use& use) {
  return op_def(*use.node).trait == FusionTrait::Contract && use.index == 1;
}

std::int64_t stored_weight_bytes(const Graph& graph) {
  std::unordered_set<const Node*> counted;
  std::int64_t bytes = 0;
  for (const auto& node : graph.nodes()) {
    if (op_def(*node).trait != FusionTrait::Contract) continue;
    const Node* const weights = stored_weights(node->operand(1));
    if (weights == nullptr || !counted.insert(weights).second) continue;
    bytes += weights->result()->type().num_bytes().constant().value_or(0);
  }
  return bytes;
}

bool is_weight_prologue(const Node& node) {
  if (!widens_constant(node)) return false;
  const Value* const widened = node.result();
  return !widened->is_graph_output() && widened->uses().size() == 1 &&
         is_right_operand(widened->uses().front());
}

}  // namespace opweld
