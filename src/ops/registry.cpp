#include <algorithm>
#include <cassert>
#include <unordered_map>

#include "ops/families.h"

namespace opweld {
namespace {

// Every family of operators; a new family is one line here and one in families.h.
constexpr OpFamily* kFamilies[] = {
    activation_ops, arg_reduce_ops,     arithmetic_ops,   attention_ops, bitcast_ops,
    cast_ops,       comparison_ops,     concat_ops,       cumsum_ops,    expand_ops,
    gather_ops,     grouped_matmul_ops, logic_ops,        math_ops,      matmul_ops,
    nonzero_ops,    norm_ops,           one_hot_ops,      pad_ops,       range_ops,
    rectifier_ops,  reduce_ops,         reshape_ops,      rope_ops,      scatter_ops,
    select_ops,     slice_ops,          softmax_ops,      source_ops,    tile_ops,
    top_k_ops,      transpose_ops,      trigonometry_ops,
};

struct Registry {
  std::unordered_map<std::string_view, const OpDef*> by_name;
  std::vector<const OpDef*> sorted;
};

Registry build_registry() {
  Registry registry;
  for (OpFamily* family : kFamilies) {
    for (const OpDef& def : family()) {
      [[maybe_unused]] const bool fresh = registry.by_name.emplace(def.name, &def).second;
      assert(fresh && "two operators have the same name");
      registry.sorted.push_back(&def);
    }
  }
  std::sort(registry.sorted.begin(), registry.sorted.end(),
            [](const OpDef* a, const OpDef* b) { return a->name < b->name; });
  return registry;
}

const Registry& registry() {
  static const Registry instance = build_registry();
  return instance;
}

}  // namespace

const OpDef* find_op(std::string_view name) {
  const auto& by_name = registry().by_name;
  const auto found = by_name.find(name);
  return found != by_name.end() ? found->second : nullptr;
}

const OpDef& op_def(const Node& node) {
  const OpDef* def = find_op(node.op());
  assert(def != nullptr && "the node's operator is not registered");
  return *def;
}

std::span<const OpDef* const> all_ops() {
  return registry().sorted;
}

}  // namespace opweld
