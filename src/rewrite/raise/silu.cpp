#include "rewrite/raise/silu.h"

#include "ops/builder.h"
#include "rewrite/dce.h"
#include "rewrite/match.h"

namespace opweld {

namespace {

// -value, spelled as a negation or a product with -1.
Value* negated_operand(const Value* value) {
  const Node* const node = value->producer();
  if (node == nullptr) return nullptr;
  if (node->op() == "neg") return node->operand(0);
  double factor = 1;
  Value* const operand = scaled_operand(*node, factor);
  return operand != nullptr && factor == -1 ? operand : nullptr;
}

// u, if the value is 1 + exp(-u) and is read once.
Value* logistic_denominator(const Value* value) {
  const Node* const sum = made_by(value, "add");
  if (sum == nullptr || !has_one_reader(value)) return nullptr;
  for (int side = 0; side < 2; ++side) {
    const Node* const exponential = made_by(sum->operand(side), "exp");
    if (exponential == nullptr || scalar_constant(sum->operand(1 - side)) != 1.0) continue;
    if (!has_one_reader(exponential->result()) || exponential->result()->type() != value->type()) {
      continue;
    }
    return negated_operand(exponential->operand(0));
  }
  return nullptr;
}

// u, if the node makes 1 / (1 + exp(-u)).
Value* logistic_operand(const Node& node) {
  if (node.op() == "reciprocal") return logistic_denominator(node.operand(0));
  if (node.op() != "div" || scalar_constant(node.operand(0)) != 1.0) return nullptr;
  if (node.operand(1)->type() != node.result()->type()) return nullptr;
  return logistic_denominator(node.operand(1));
}

// x * sigmoid(u) or x / (1 + exp(-u)).
struct Gated {
  Value* x = nullptr;
  Value* u = nullptr;
};

Gated match_gated(const Node& root) {
  if (root.op() == "div") return {root.operand(0), logistic_denominator(root.operand(1))};
  if (root.op() != "mul") return {};
  for (int side = 0; side < 2; ++side) {
    const Node* const sigmoid = made_by(root.operand(side), "sigmoid");
    if (sigmoid == nullptr || !has_one_reader(sigmoid->result())) continue;
    Value* const x = root.operand(1 - side);
    double alpha = 1;
    const Node* const scaled = sigmoid->operand(0)->producer();
    const bool is_own =
        sigmoid->operand(0) == x || (scaled != nullptr && scaled_operand(*scaled, alpha) == x);
    if (is_own) return {x, sigmoid->operand(0)};
  }
  return {};
}

Status raise_gated(Graph& graph, Node& root) {
  const Gated gated = match_gated(root);
  if (gated.u == nullptr || gated.u->type() != gated.x->type()) return {};
  Builder builder(graph, &root, raised_source(root, "Swish"));
  Value* raised = nullptr;
  if (gated.u == gated.x) {
    raised = builder.op("silu", {gated.x});
  } else {
    double alpha = 1;
    const Node* const scaled = gated.u->producer();
    if (scaled == nullptr || scaled_operand(*scaled, alpha) != gated.x) return {};
    if (!has_one_reader(gated.u)) return {};
    raised = builder.op("swish", {gated.x}, {{"alpha", alpha}});
  }
  if (!builder.status()) return builder.status();
  replace_by_raised(graph, root.result(), raised);
  return {};
}

Status raise_sigmoid(Graph& graph, Node& root) {
  Value* const u = logistic_operand(root);
  if (u == nullptr || u->type() != root.result()->type()) return {};
  Builder builder(graph, &root, raised_source(root, "Sigmoid"));
  Value* const raised = builder.op("sigmoid", {u});
  if (!builder.status()) return builder.status();
  replace_by_raised(graph, root.result(), raised);
  return {};
}

}  // namespace

Status raise_silu(Graph& graph) {
  for (Node* node : graph.nodes_in_order()) OPWELD_CHECK(raise_sigmoid(graph, *node));
  OPWELD_CHECK(eliminate_dead_code(graph));
  for (Node* node : graph.nodes_in_order()) OPWELD_CHECK(raise_gated(graph, *node));
  return eliminate_dead_code(graph);
}

}  // namespace opweld
