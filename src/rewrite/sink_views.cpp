#include "rewrite/sink_views.h"

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

// The operand that has the elements of the result, the others being single numbers; else -1.
int only_tensor_operand(const Node& node) {
  int found = -1;
  for (int i = 0; i < node.num_operands(); ++i) {
    const Value* const operand = node.operand(i);
    if (operand == nullptr || scalar_constant(operand)) continue;
    if (found >= 0 || operand->shape() != node.result()->shape()) return -1;
    found = i;
  }
  return found;
}

// Moves the node in front of the view that makes its operand: the node there, or null where
// something is in the way.
Node* moved_before_view(Graph& graph, Node* node) {
  if (!is_pointwise(*node)) return nullptr;
  const int at = only_tensor_operand(*node);
  Value* const behind = at < 0 ? nullptr : node->operand(at);
  if (behind == nullptr || !has_one_reader(behind)) return nullptr;
  Node* const view = behind->producer();
  if (view == nullptr || !is_view(*view) || !leads_to_product(*view)) return nullptr;
  Value* const before = view->operand(0);
  std::vector<Value*> operands(node->operands().begin(), node->operands().end());
  operands[static_cast<std::size_t>(at)] = before;
  Builder work(graph, node, node->source());
  Value* const inner = work.op(node->op(), std::move(operands), node->attributes());
  Builder moving(graph, node, view->source());
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
  for (Node* node : graph.nodes_in_order()) {
    while (node != nullptr) node = moved_before_view(graph, node);
  }
  return eliminate_dead_code(graph);
}

}  // namespace opweld
