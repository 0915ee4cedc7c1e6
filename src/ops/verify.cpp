#include <algorithm>

#include "graph/verifier.h"
#include "ops/builder.h"
#include "ops/schema.h"

namespace opweld {
namespace {

// Equal by form, or assumed equal by the graph, in which case every run checks it.
bool same_size(const Graph& graph, const Dim& a, const Dim& b) {
  if (a == b) return true;
  return std::any_of(
      graph.assumptions().begin(), graph.assumptions().end(), [&](const auto& known) {
        return (known.left == a && known.right == b) || (known.left == b && known.right == a);
      });
}

bool same_type(const Graph& graph, const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && a.format == b.format &&
         std::equal(a.shape.begin(), a.shape.end(), b.shape.begin(), b.shape.end(),
                    [&](const Dim& x, const Dim& y) { return same_size(graph, x, y); });
}

Status verify_node(const Graph& graph, const Node& node) {
  const OpDef* def = find_op(node.op());
  if (def == nullptr) return tl::unexpected(unknown_operator(node.op()));
  OPWELD_CHECK(check_operands(*def, node.operands()));
  Attributes attributes = node.attributes();
  OPWELD_CHECK(check_attributes(*def, attributes));
  // A kind that had to be adapted would surprise the definition, which reads the node itself.
  if (!(attributes == node.attributes())) return fail("has an attribute of another kind");

  std::vector<SizeAssumption> assumptions;
  OPWELD_TRY(const auto types, def->infer({node.operands(), attributes, &assumptions}));
  if (static_cast<int>(types.size()) != node.num_results()) {
    return fail("has {} results, but its operator {}", node.num_results(), types.size());
  }
  for (int index = 0; index < node.num_results(); ++index) {
    const TensorType& inferred = types[static_cast<std::size_t>(index)];
    if (same_type(graph, inferred, node.result(index)->type())) continue;
    return fail("result {} is {}, but its operands make it {}", index,
                to_string(node.result(index)->type()), to_string(inferred));
  }
  for (const SizeAssumption& needed : assumptions) {
    if (same_size(graph, needed.left, needed.right)) continue;
    return fail("needs {} and {} to be equal ({}), which the graph does not assume", needed.left,
                needed.right, needed.reason);
  }
  return {};
}

}  // namespace

Status verify(const Graph& graph) {
  OPWELD_CHECK(verify_structure(graph));
  for (const auto& node : graph.nodes()) {
    auto status = verify_node(graph, *node);
    if (!status) {
      return tl::unexpected(status.error().with_context(
          fmt::format("{} (node {})", node_label(node->op(), node->source()), node->id())));
    }
  }
  return {};
}

}  // namespace opweld
