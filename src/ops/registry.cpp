#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "ops/families.h"
#include "ops/register.h"

namespace opweld {
namespace {

// Every family of operators; a new family is one line here and one in families.h.
constexpr OpFamily* kFamilies[] = {
    activation_ops, arg_reduce_ops,     arithmetic_ops, attention_ops,     bitcast_ops,
    cast_ops,       comparison_ops,     concat_ops,     cumsum_ops,        expand_ops,
    gather_ops,     grouped_matmul_ops, logic_ops,      math_ops,          matmul_ops,
    nonzero_ops,    norm_ops,           one_hot_ops,    pad_ops,           range_ops,
    rectifier_ops,  reduce_ops,         reshape_ops,    rope_ops,          scatter_ops,
    select_ops,     slice_ops,          softmax_ops,    sort_by_group_ops, source_ops,
    tile_ops,       top_k_ops,          transpose_ops,  trigonometry_ops,
};

// By the first and the last letters: planning looks operators up by the million.
struct NameHash {
  std::size_t operator()(std::string_view name) const noexcept {
    constexpr std::uint64_t kMultiplier = 0x9e3779b97f4a7c15;
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    const std::size_t some = std::min(name.size(), sizeof first);
    std::memcpy(&first, name.data(), some);
    std::memcpy(&last, name.data() + name.size() - some, some);
    const std::uint64_t mixed = (first * kMultiplier ^ last) * kMultiplier;
    return static_cast<std::size_t>(mixed >> 32 ^ name.size());
  }
};

struct Registry {
  std::unordered_map<std::string_view, const OpDef*, NameHash> by_name;
  std::vector<const OpDef*> sorted;
};

void sort_by_name(Registry& registry) {
  std::sort(registry.sorted.begin(), registry.sorted.end(),
            [](const OpDef* a, const OpDef* b) { return a->name < b->name; });
}

Registry built_in() {
  Registry registry;
  for (OpFamily* family : kFamilies) {
    for (const OpDef& def : family()) {
      [[maybe_unused]] const bool fresh = registry.by_name.emplace(def.name, &def).second;
      assert(fresh && "two operators have the same name");
      registry.sorted.push_back(&def);
    }
  }
  sort_by_name(registry);
  return registry;
}

// Readers never wait: whoever registers operators puts a new registry in place of the old one,
// which stays, since somebody may be reading it.
struct Registries {
  std::mutex adding;
  std::vector<std::unique_ptr<const Registry>> all;  // the last one holds
  std::atomic<const Registry*> current;

  Registries() {
    all.push_back(std::make_unique<const Registry>(built_in()));
    current = all.back().get();
  }
};

Registries& registries() {
  static Registries instance;
  return instance;
}

const Registry& registry() {
  return *registries().current.load(std::memory_order_acquire);
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

Status register_ops(std::span<const OpDef* const> defs) {
  Registries& known = registries();
  const std::lock_guard lock(known.adding);
  auto extended = std::make_unique<Registry>(*known.all.back());
  for (const OpDef* def : defs) {
    assert(def->origin != nullptr);
    const auto [at, fresh] = extended->by_name.emplace(def->name, def);
    if (!fresh) {
      const OpOrigin* const other = at->second->origin;
      if (other == nullptr) return fail("operator '{}' is built in", def->name);
      if (other == def->origin) return fail("operator '{}' is defined twice", def->name);
      return fail("operator '{}' is defined by plugin '{}' ({}) already", def->name, other->plugin,
                  other->path);
    }
    extended->sorted.push_back(def);
  }
  sort_by_name(*extended);
  known.all.push_back(std::move(extended));
  known.current.store(known.all.back().get(), std::memory_order_release);
  return {};
}

std::string what_to_declare(const OpDef& def) {
  if (def.origin == nullptr || def.trait != FusionTrait::Opaque) return {};
  return fmt::format(
      "custom operator '{}' of plugin '{}' ({}) declares neither an expression nor a body, so that "
      "nothing is known of its inside; it would fuse with an OpweldOp.expression, if each element "
      "of its result follows from one element of each operand, or an OpweldOp.body of known "
      "operators",
      def.name, def.origin->plugin, def.origin->path);
}

std::string declarations_in(const Graph& graph) {
  std::map<std::string_view, const OpOrigin*> found;
  for (const auto& node : graph.nodes()) {
    const OpDef* const def = find_op(node->op());
    if (def != nullptr && def->origin != nullptr) found.emplace(def->name, def->origin);
  }
  std::string text;
  for (const auto& [name, origin] : found) text += origin->declaration + "\n";
  return text;
}

}  // namespace opweld
