#include "tile/lower.h"

#include <algorithm>

#include "ops/builder.h"
#include "ops/few_elements.h"
#include "tile/lowering_memory.h"
#include "tile/schedules/schedules.h"

namespace opweld::tile {

Status expand_composites(Graph& group) {
  // Bodies may contain composites themselves, so this goes on until none is left.
  for (bool changed = true; changed;) {
    changed = false;
    for (Node* node : group.nodes_in_order()) {
      const OpDef& def = op_def(*node);
      if (def.body == nullptr) continue;
      OPWELD_TRY(const std::vector<Value*> replacements, def.body(group, *node));
      for (std::size_t i = 0; i < replacements.size(); ++i) {
        group.replace_all_uses(node->result(static_cast<int>(i)), replacements[i]);
      }
      group.erase(node);
      changed = true;
    }
  }
  return expand_few_elements(group);
}

namespace {

Expected<LoweredKernel> lower_primitives(const Graph& group, KernelKind kind,
                                         const LowerOptions& options, std::string name) {
  switch (kind) {
    case KernelKind::Map:
      return lower_map(group, options, std::move(name));
    case KernelKind::Row:
      return lower_row(group, options, std::move(name));
    case KernelKind::Reduce:
      // What counts the rows of groups, and goes on from there.
      if (find_sort(group) != nullptr) return lower_sort(group, options, std::move(name));
      return lower_reduce(group, options, std::move(name));
    case KernelKind::Contract:
      return lower_contract(group, options, std::move(name));
    case KernelKind::Chain:
      return lower_chain(group, options, std::move(name));
    case KernelKind::Attention:
      return lower_attention(group, options, std::move(name));
    case KernelKind::Move:
      return lower_move(group, options, std::move(name));
    case KernelKind::Extern:
      break;
  }
  return fail("it is run by a call, not by generated code");
}

}  // namespace

Expected<LoweredKernel> lower(const Graph& group, KernelKind kind, const LowerOptions& options,
                              std::string name) {
  if (group.outputs().empty()) return fail("nothing reads its results");
  const bool is_expanded = std::ranges::none_of(group.nodes(), [](const auto& node) {
    return op_def(*node).body != nullptr || chooses_few(*node) || combines_few(*node);
  });
  if (is_expanded) return lower_primitives(group, kind, options, std::move(name));
  if (options.memory != nullptr) {
    OPWELD_TRY(const Graph primitives, options.memory->expansions.expanded(group));
    return lower_primitives(primitives, kind, options, std::move(name));
  }
  Graph primitives = group.clone();
  OPWELD_CHECK(expand_composites(primitives));
  return lower_primitives(primitives, kind, options, std::move(name));
}

}  // namespace opweld::tile
