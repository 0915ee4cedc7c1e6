#include "rewrite/index_range.h"

#include "ops/axes.h"

namespace opweld {

namespace {

// Of the axis that the node looks for places on.
std::optional<Dim> searched_size(const Node& node) {
  const Shape& shape = node.operand(0)->shape();
  const auto axis = axis_attribute(node.attributes(), node.operand(0)->rank(), 0);
  return axis ? std::optional(shape[static_cast<std::size_t>(*axis)]) : std::nullopt;
}

// Whether the dtype has all numbers below the limit. I64 has every size.
bool holds_all(DType dtype, const Dim& limit) {
  if (dtype == DType::I64) return true;
  const auto size = limit.constant();
  return dtype == DType::I32 && size && *size <= std::int64_t{1} << 31;
}

}  // namespace

std::optional<Dim> index_limit(const Value* value) {
  const Node* const node = value->producer();
  if (node == nullptr || !is_integer(value->dtype())) return std::nullopt;
  const std::string& op = node->op();
  if (op == "argmax" || op == "argmin") return searched_size(*node);
  if (op == "top_k" && value->result_index() == 1) return searched_size(*node);
  // The third result is how many rows a group has, which may be all of them.
  if (op == "sort_by_group" && value->result_index() < 2) return value->shape()[0];
  const bool moves = op == "reshape" || op == "transpose" || op == "expand" || op == "slice" ||
                     op == "gather" || op == "top_k";
  if (!moves && op != "cast") return std::nullopt;
  const auto limit = index_limit(node->operand(0));
  return limit && holds_all(value->dtype(), *limit) ? limit : std::nullopt;
}

}  // namespace opweld
