#include "rewrite/match.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace opweld {

namespace {

// The distance from 1 to the next number of the dtype.
double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return std::numeric_limits<double>::epsilon();
    case DType::F32:
      return std::numeric_limits<float>::epsilon();
    case DType::F16:
      return 0x1p-10;
    case DType::BF16:
      return 0x1p-7;
    default:
      return 0;
  }
}

}  // namespace

Node* made_by(const Value* value, std::string_view op) {
  Node* const node = value == nullptr ? nullptr : value->producer();
  return node != nullptr && node->op() == op && stays_on_its_stream(value) ? node : nullptr;
}

std::optional<double> scalar_constant(const Value* value) {
  const Node* const node = made_by(value, "constant");
  if (node == nullptr) return std::nullopt;
  const Tensor& tensor = node->attributes().tensor("value");
  if (tensor.num_elements() != 1) return std::nullopt;
  return is_float(tensor.dtype()) ? tensor.get_double(0) : static_cast<double>(tensor.get_int(0));
}

std::optional<double> uniform_value(const Value* value) {
  const Node* const node = value->producer();
  if (node == nullptr) return std::nullopt;
  if (node->op() == "expand" || node->op() == "reshape") return uniform_value(node->operand(0));
  if (node->op() != "constant") return std::nullopt;
  const Tensor& tensor = node->attributes().tensor("value");
  if (tensor.num_elements() == 0) return std::nullopt;
  const auto element = [&](std::int64_t at) {
    return is_float(tensor.dtype()) ? tensor.get_double(at)
                                    : static_cast<double>(tensor.get_int(at));
  };
  for (std::int64_t i = 1; i < tensor.num_elements(); ++i) {
    if (element(i) != element(0)) return std::nullopt;
  }
  return element(0);
}

bool is_about(double number, double expected, DType dtype) {
  return std::abs(number - expected) <= 2 * epsilon_of(dtype) * std::abs(expected);
}

bool is_about(const Value* value, double expected) {
  const auto number = scalar_constant(value);
  return number && is_about(*number, expected, value->dtype());
}

bool stays_on_its_stream(const Value* value) {
  const Node* const producer = value->producer();
  if (producer == nullptr || producer->op() == "constant") return true;
  return std::ranges::all_of(value->uses(), [&](const Use& use) {
    return use.node->source().stream == producer->source().stream;
  });
}

bool has_one_reader(const Value* value) {
  return value->uses().size() == 1 && !value->is_graph_output() && stays_on_its_stream(value);
}

Node* only_reader(const Value* value) {
  const auto& uses = value->uses();
  if (uses.empty() || value->is_graph_output() || !stays_on_its_stream(value)) return nullptr;
  Node* const first = uses.front().node;
  const bool alone =
      std::all_of(uses.begin(), uses.end(), [&](const Use& use) { return use.node == first; });
  return alone ? first : nullptr;
}

Value* other_operand(const Node& node, const Value* value) {
  if (node.num_operands() != 2) return nullptr;
  if (node.operand(0) == value) return node.operand(1);
  return node.operand(1) == value ? node.operand(0) : nullptr;
}

bool is_closed(std::span<Node* const> nodes, const Node* root) {
  const auto inside = [&](const Node* node) {
    return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
  };
  return std::all_of(nodes.begin(), nodes.end(), [&](const Node* node) {
    if (node == root) return true;
    if (node->op() != "constant" && node->source().stream != root->source().stream) return false;
    const auto& uses = node->result()->uses();
    return !node->result()->is_graph_output() &&
           std::all_of(uses.begin(), uses.end(), [&](const Use& use) { return inside(use.node); });
  });
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

std::optional<int> first_reduced_axis(const Node& reduction) {
  const Attributes& attributes = reduction.attributes();
  const int rank = reduction.operand(0)->rank();
  if (!attributes.has("axes") || attributes.integer("keepdims", 1) != 1) return std::nullopt;
  Ints axes = attributes.ints("axes");
  for (std::int64_t& axis : axes) axis = axis < 0 ? axis + rank : axis;
  std::sort(axes.begin(), axes.end());
  if (axes.empty() || axes.back() != rank - 1) return std::nullopt;
  const bool no_gap = axes.back() - axes.front() + 1 == static_cast<std::int64_t>(axes.size());
  return no_gap ? std::optional(static_cast<int>(axes.front())) : std::nullopt;
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

bool spreads_over(const Value* value, const Shape& shape) {
  if (value->rank() > static_cast<int>(shape.size())) return false;
  const std::size_t offset = shape.size() - static_cast<std::size_t>(value->rank());
  for (std::size_t axis = 0; axis < value->shape().size(); ++axis) {
    const Dim& size = value->shape()[axis];
    if (!(size == Dim(1)) && !(size == shape[offset + axis])) return false;
  }
  return true;
}

Value* take_in_casts(Value*& x, Value* result) {
  const Node* const widening = made_by(x, "cast");
  const Node* const narrowing = has_one_reader(result) ? only_reader(result) : nullptr;
  if (widening == nullptr || narrowing == nullptr || narrowing->op() != "cast") return result;
  const DType narrow = widening->operand(0)->dtype();
  if (widening->source().stream != narrowing->source().stream) return result;
  const bool widens = is_float(narrow) && compute_dtype(narrow) == result->dtype();
  if (!widens || narrowing->result()->dtype() != narrow) return result;
  x = widening->operand(0);
  return narrowing->result();
}

Source raised_source(const Node& root, std::string_view op) {
  Source source = root.source();
  source.op = op;
  source.operators = 1;
  return source;
}

Source joined_source(std::span<const Node* const> nodes) {
  std::vector<std::string> names;
  std::vector<std::string> ops;
  std::string scope = nodes.front()->source().scope;
  for (const Node* node : nodes) {
    const Source& source = node->source();
    if (!source.name.empty()) names.push_back(source.name);
    ops.push_back(source.op.empty() ? node->op() : source.op);
    if (source.scope != scope) scope.clear();
  }
  return {fmt::format("{}", fmt::join(names, " + ")), fmt::format("{}", fmt::join(ops, " + ")),
          scope, static_cast<int>(nodes.size()), nodes.front()->source().stream};
}

void replace_by_raised(Graph& graph, Value* old, Value* raised) {
  if (raised->name().empty()) raised->set_name(old->name());
  graph.replace_all_uses(old, raised);
}

}  // namespace opweld
