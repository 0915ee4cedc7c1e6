#include "rewrite/simplify.h"

#include <algorithm>

#include "rewrite/simplify_rules.h"

namespace opweld {

namespace {

// Whether an operand comes from another stream: rules look at what makes their operands, and may
// make one operator of both.
bool reads_other_stream(const Node& node) {
  return std::ranges::any_of(node.operands(), [&](const Value* operand) {
    const Node* const producer = operand == nullptr ? nullptr : operand->producer();
    return producer != nullptr && producer->op() != "constant" &&
           producer->source().stream != node.source().stream;
  });
}

// The value of the first rule that applies; null if none does.
Value* replacement_of(Graph& graph, Node& node) {
  if (reads_other_stream(node)) return nullptr;
  for (const auto& table : {arithmetic_simplifications(), cast_simplifications(),
                            integer_simplifications(), view_simplifications()}) {
    for (const SimplifyRule& rule : table) {
      if (rule.op != node.op()) continue;
      Builder build(graph, &node, node.source());
      Value* const replacement = rule.replacement(build, node);
      // Where the shape rules cannot follow, the node stays.
      if (build.status() && replacement != nullptr) return replacement;
    }
  }
  return nullptr;
}

}  // namespace

Status simplify(Graph& graph) {
  // Every rule takes an operator away or puts a cheaper one in its place, so this comes to an end.
  for (bool changed = true; changed;) {
    changed = false;
    for (Node* node : graph.nodes_in_order()) {
      Value* const replacement = replacement_of(graph, *node);
      if (replacement == nullptr) continue;
      if (replacement->name().empty()) replacement->set_name(node->result()->name());
      graph.replace_all_uses(node->result(), replacement);
      graph.erase(node);
      changed = true;
    }
  }
  return {};
}

}  // namespace opweld
