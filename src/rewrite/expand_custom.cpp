#include "rewrite/expand_custom.h"

#include "ops/op.h"

namespace opweld {

namespace {

// Bodies may hold custom operators themselves; none needs so many in each other.
constexpr int kMostRounds = 16;

Expected<bool> expand_once(Graph& graph) {
  bool changed = false;
  for (Node* node : graph.nodes_in_order()) {
    const OpDef& def = op_def(*node);
    if (def.origin == nullptr || def.body == nullptr) continue;
    auto results = def.body(graph, *node);
    if (!results) return tl::unexpected(results.error().with_context(node->display_name()));
    for (int i = 0; i < node->num_results(); ++i) {
      Value* const old = node->result(i);
      Value* const made = (*results)[static_cast<std::size_t>(i)];
      if (made->name().empty() && !made->is_graph_input()) made->set_name(old->name());
      graph.replace_all_uses(old, made);
    }
    graph.erase(node);
    changed = true;
  }
  return changed;
}

}  // namespace

Status expand_custom_operators(Graph& graph) {
  for (int round = 0; round < kMostRounds; ++round) {
    OPWELD_TRY(const bool changed, expand_once(graph));
    if (!changed) return {};
  }
  return fail("custom operators are defined in terms of themselves");
}

}  // namespace opweld
