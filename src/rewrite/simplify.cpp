#include "rewrite/simplify.h"

#include "rewrite/simplify_rules.h"

namespace opweld {

namespace {

// The value of the first rule that applies; null if none does.
Value* replacement_of(Graph& graph, Node& node) {
  for (const auto& table :
       {arithmetic_simplifications(), cast_simplifications(), view_simplifications()}) {
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
