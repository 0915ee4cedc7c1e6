#include "rewrite/sink_views.h"

#include <set>

#include "ops/builder.h"
#include "ops/op.h"
#include "rewrite/dce.h"
#include "rewrite/match.h"

namespace opweld {

namespace {

// Steps between a product and the views, such as a bias, an activation and a residual.
constexpr int kMostSteps = 8;

bool is_pointwise(const Node& node) {
  return op_def(node).trait == FusionTrait::Pointwise && node.num_results() == 1;
}

bool is_view(const Node& node) {
  return node.op() == "reshape" || node.op() == "transpose";
}

// Whether pointwise operators that nothing else reads lead down to a matmul.
bool comes_of_product(const Value* value, int steps = 0) {
  const Node* const node = value->producer();
  if (node == nullptr || !has_one_reader(value) || steps > kMostSteps) return false;
  if (node->op() == "matmul") return is_float(value->dtype());
  if (!is_pointwise(*node)) return false;
  for (const Value* operand : node->operands()) {
    if (operand != nullptr && operand->shape() == value->shape() &&
        comes_of_product(operand, steps + 1)) {
      return true;
    }
  }
  return false;
}

// Whether this and other views that nothing else reads stand behind a product.
bool leads_to_product(const Node& view) {
  const Value* before = view.operand(0);
  while (before->producer() != nullptr && is_view(*before->producer()) && has_one_reader(before)) {
    before = before->producer()->operand(0);
  }
  return comes_of_product(before);
}

// Views that were put in front of other operands, by their ids: these stay where they are, or two
// operands behind products would take turns without end.
using Placed = std::set<int>;

// Which operand stands behind a view that leads to a product, and has all elements of the result;
// else -1.
int operand_behind_view(const Node& node, const Placed& placed) {
  for (int i = 0; i < node.num_operands(); ++i) {
    const Value* const operand = node.operand(i);
    if (operand == nullptr || operand->shape() != node.result()->shape()) continue;
    if (!has_one_reader(operand)) continue;
    const Node* const view = operand->producer();
    if (view == nullptr || !is_view(*view) || placed.contains(view->id())) continue;
    if (leads_to_product(*view)) return i;
  }
  return -1;
}

Ints inverse(const Ints& permutation) {
  Ints result(permutation.size());
  for (std::size_t axis = 0; axis < permutation.size(); ++axis) {
    result[static_cast<std::size_t>(permutation[axis])] = static_cast<std::int64_t>(axis);
  }
  return result;
}

// The operand as it is read in front of the view; null where it cannot be.
Value* in_front_of(const Node& view, Value* operand, Builder& build) {
  if (scalar_constant(operand)) return operand;
  if (view.op() != "transpose") return nullptr;
  const Ints& permutation = view.attributes().ints("permutation");
  // Axes that it does not have are of one element.
  Shape shape = operand->shape();
  if (shape.size() > permutation.size()) return nullptr;
  shape.insert(shape.begin(), permutation.size() - shape.size(), Dim(1));
  Value* const whole = shape == operand->shape() ? operand : build.reshape(operand, shape);
  return whole == nullptr ? nullptr : build.transpose(whole, inverse(permutation));
}

// Moves the node in front of the view that makes its operand: the node there, or null where
// something is in the way.
Node* moved_before_view(Graph& graph, Node* node, Placed& placed) {
  if (!is_pointwise(*node)) return nullptr;
  const int at = operand_behind_view(*node, placed);
  if (at < 0) return nullptr;
  Node* const view = node->operand(at)->producer();
  std::vector<Value*> operands(node->operands().begin(), node->operands().end());
  Builder work(graph, node, node->source());
  Builder moving(graph, node, view->source());
  for (int i = 0; i < node->num_operands(); ++i) {
    Value*& operand = operands[static_cast<std::size_t>(i)];
    if (operand == nullptr) continue;
    operand = i == at ? view->operand(0) : in_front_of(*view, operand, moving);
    if (operand == nullptr) return nullptr;
    const bool is_placed = i != at && operand != node->operand(i);
    if (is_placed) placed.insert(operand->producer()->id());
  }
  Value* const inner = work.op(node->op(), std::move(operands), node->attributes());
  Value* const moved =
      inner == nullptr ? nullptr : moving.op(view->op(), {inner}, view->attributes());
  if (moved == nullptr || moved->type() != node->result()->type()) return nullptr;
  moved->set_name(node->result()->name());
  graph.replace_all_uses(node->result(), moved);
  graph.erase(node);
  graph.erase(view);
  return inner->producer();
}

}  // namespace

Status sink_views(Graph& graph) {
  Placed placed;
  for (Node* node : graph.nodes_in_order()) {
    while (node != nullptr) node = moved_before_view(graph, node, placed);
  }
  return eliminate_dead_code(graph);
}

}  // namespace opweld
