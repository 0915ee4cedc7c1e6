#include "rewrite/match.h"

namespace opweld {

Node* made_by(const Value* value, std::string_view op) {
  Node* const node = value == nullptr ? nullptr : value->producer();
  return node != nullptr && node->op() == op ? node : nullptr;
}

std::optional<double> scalar_constant(const Value* value) {
  const Node* const node = made_by(value, "constant");
  if (node == nullptr) return std::nullopt;
  const Tensor& tensor = node->attributes().tensor("value");
  if (tensor.num_elements() != 1) return std::nullopt;
  return is_float(tensor.dtype()) ? tensor.get_double(0) : static_cast<double>(tensor.get_int(0));
}

bool has_one_reader(const Value* value) {
  return value->uses().size() == 1 && !value->is_graph_output();
}

Value* scaled_operand(const Node& node, double& factor) {
  if (node.op() == "mul") {
    for (int side = 0; side < 2; ++side) {
      const auto constant = scalar_constant(node.operand(side));
      // A constant of higher rank would broadcast the other operand.
      if (!constant || node.operand(side)->rank() > node.operand(1 - side)->rank()) continue;
      factor = *constant;
      return node.operand(1 - side);
    }
  }
  if (node.op() == "div") {
    const auto constant = scalar_constant(node.operand(1));
    if (constant && *constant != 0 && node.operand(1)->rank() <= node.operand(0)->rank()) {
      factor = 1 / *constant;
      return node.operand(0);
    }
  }
  return nullptr;
}

bool swaps_last_axes(const Node& transpose) {
  const Ints& permutation = transpose.attributes().ints("permutation");
  const auto rank = static_cast<std::int64_t>(permutation.size());
  if (rank < 2) return false;
  for (std::int64_t axis = 0; axis < rank; ++axis) {
    std::int64_t wanted = axis;
    if (axis == rank - 1) wanted = rank - 2;
    if (axis == rank - 2) wanted = rank - 1;
    if (permutation[static_cast<std::size_t>(axis)] != wanted) return false;
  }
  return true;
}

}  // namespace opweld
