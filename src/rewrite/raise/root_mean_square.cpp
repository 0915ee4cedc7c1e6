#include "rewrite/raise/root_mean_square.h"

#include <utility>

#include "ops/builder.h"
#include "rewrite/match.h"

namespace opweld {

namespace {

// The one operand of a square.
Value* squared_operand(const Value* value) {
  if (const Node* const product = made_by(value, "mul")) {
    return product->operand(0) == product->operand(1) ? product->operand(0) : nullptr;
  }
  const Node* const power = made_by(value, "pow");
  const bool is_square = power != nullptr && scalar_constant(power->operand(1)) == 2.0 &&
                         power->operand(0)->type() == power->result()->type();
  return is_square ? power->operand(0) : nullptr;
}

// How many elements the axes from `axis` hold.
std::optional<double> elements_from(const Shape& shape, int axis) {
  Dim count = 1;
  for (std::size_t i = static_cast<std::size_t>(axis); i < shape.size(); ++i) count *= shape[i];
  const auto known = count.constant();
  return known && *known > 0 ? std::optional(static_cast<double>(*known)) : std::nullopt;
}

// The reduction that the value is the mean or the sum of, divided by the number of elements.
Node* mean_reduction(Value* value) {
  Node* node = value->producer();
  if (node == nullptr || node->op() == "reduce_mean") return node;
  double factor = 1;
  Value* const sum = scaled_operand(*node, factor);
  if (sum == nullptr || !has_one_reader(sum)) return nullptr;
  node = sum->producer();
  if (node == nullptr || (node->op() != "reduce_sum" && node->op() != "reduce_sum_square")) {
    return nullptr;
  }
  const auto axis = first_reduced_axis(*node);
  const auto count = axis ? elements_from(node->operand(0)->shape(), *axis) : std::nullopt;
  return count && is_about(factor * *count, 1, value->dtype()) ? node : nullptr;
}

// The value is the mean of x^2: fills x, squares and axis.
bool match_mean_square(Value* value, RmsDivision& division) {
  Node* const reduction = mean_reduction(value);
  if (reduction == nullptr || reduction->num_operands() != 1) return false;
  const auto axis = first_reduced_axis(*reduction);
  if (!axis) return false;
  Value* const input = reduction->operand(0);
  division.axis = *axis;
  if (reduction->op() == "reduce_sum_square") {
    division.squares = reduction;
    division.x = input;
    return true;
  }
  if (only_reader(input) != reduction) return false;
  division.squares = input->producer();
  division.x = squared_operand(input);
  return division.x != nullptr;
}

// The value is mean(x^2) + epsilon.
bool match_shifted_mean(Value* value, RmsDivision& division) {
  if (!has_one_reader(value)) return false;
  division.epsilon = 0;
  if (const Node* const sum = made_by(value, "add")) {
    for (int side = 0; side < 2; ++side) {
      const auto epsilon = scalar_constant(sum->operand(side));
      Value* const mean = sum->operand(1 - side);
      if (!epsilon || !(*epsilon >= 0) || mean->shape() != value->shape()) continue;
      division.epsilon = *epsilon;
      return has_one_reader(mean) && match_mean_square(mean, division);
    }
    return false;
  }
  return match_mean_square(value, division);
}

// What the value is the power of, with an exponent of 1/2 or -1/2.
Value* power_operand(const Value* value, double exponent) {
  const Node* const power = made_by(value, "pow");
  const bool matches = power != nullptr && scalar_constant(power->operand(1)) == exponent &&
                       power->operand(0)->type() == power->result()->type();
  return matches ? power->operand(0) : nullptr;
}

bool match_root(Value* value, RmsDivision& division) {
  if (!has_one_reader(value)) return false;
  const Node* const root = made_by(value, "sqrt");
  Value* const inside = root != nullptr ? root->operand(0) : power_operand(value, 0.5);
  return inside != nullptr && match_shifted_mean(inside, division);
}

bool match_reciprocal_root(Value* value, RmsDivision& division) {
  if (!has_one_reader(value)) return false;
  if (const Node* const node = made_by(value, "rsqrt")) {
    return match_shifted_mean(node->operand(0), division);
  }
  if (Value* const inside = power_operand(value, -0.5)) return match_shifted_mean(inside, division);
  if (const Node* const node = made_by(value, "reciprocal")) {
    return match_root(node->operand(0), division);
  }
  const Node* const quotient = made_by(value, "div");
  return quotient != nullptr && scalar_constant(quotient->operand(0)) == 1.0 &&
         quotient->operand(1)->shape() == value->shape() &&
         match_root(quotient->operand(1), division);
}

// The value is a reciprocal root, or the product of one and a scale.
bool match_factor(Value* value, RmsDivision& division) {
  division.scale = nullptr;
  if (match_reciprocal_root(value, division)) return true;
  const Node* const product = made_by(value, "mul");
  if (product == nullptr || !has_one_reader(value)) return false;
  for (int side = 0; side < 2; ++side) {
    if (!match_reciprocal_root(product->operand(side), division)) continue;
    division.scale = product->operand(1 - side);
    return is_norm_parameter(division.scale, division.x, division.axis);
  }
  return false;
}

}  // namespace

std::optional<RmsDivision> match_rms_division(Node& root) {
  RmsDivision division{&root, nullptr, nullptr, nullptr, 0, 0};
  if (root.op() == "div") {
    const bool matches = match_root(root.operand(1), division) && division.x == root.operand(0);
    return matches ? std::optional(division) : std::nullopt;
  }
  if (root.op() != "mul") return std::nullopt;
  for (int side = 0; side < 2; ++side) {
    if (match_factor(root.operand(side), division) && division.x == root.operand(1 - side)) {
      return division;
    }
  }
  return std::nullopt;
}

Value* mean_operand(Value* value, int axis) {
  const Node* const reduction = mean_reduction(value);
  const bool matches = reduction != nullptr && reduction->op() != "reduce_sum_square" &&
                       reduction->num_operands() == 1 && first_reduced_axis(*reduction) == axis;
  return matches ? reduction->operand(0) : nullptr;
}

bool is_norm_parameter(const Value* value, const Value* x, int axis) {
  if (!is_float(value->dtype()) || !spreads_over(value, x->shape())) return false;
  const int offset = x->rank() - value->rank();
  for (int i = 0; i < value->rank() && i + offset < axis; ++i) {
    if (value->shape()[static_cast<std::size_t>(i)] != Dim(1)) return false;
  }
  return true;
}

Node* parameter_step(const Value* value, std::string_view op, const Value* x, int axis,
                     Value*& parameter) {
  if (!has_one_reader(value)) return nullptr;
  Node* const reader = only_reader(value);
  if (reader == nullptr || reader->op() != op) return nullptr;
  Value* const other = other_operand(*reader, value);
  if (!is_norm_parameter(other, x, axis)) return nullptr;
  parameter = other;
  return reader;
}

Status raise_norm(Graph& graph, Node& root, std::string_view op, std::string_view source_op,
                  NormOperands operands, int axis, double epsilon) {
  Value* const result = take_in_casts(operands.x, root.result());
  std::vector<Value*> all = {operands.x};
  if (operands.scale != nullptr || operands.bias != nullptr) all.push_back(operands.scale);
  if (operands.bias != nullptr) all.push_back(operands.bias);
  Builder builder(graph, result->producer(), raised_source(root, source_op));
  Value* const raised = builder.op(
      op, std::move(all), {{"axis", static_cast<std::int64_t>(axis)}, {"epsilon", epsilon}});
  if (!builder.status()) return builder.status();
  replace_by_raised(graph, result, raised);
  return {};
}

}  // namespace opweld
