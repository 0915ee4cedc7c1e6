#include "report/provenance.h"

#include <algorithm>
#include <ranges>
#include <set>
#include <string>
#include <unordered_map>

namespace opweld {

std::string_view to_string(OperatorFate fate) {
  constexpr std::string_view kNames[] = {"kept", "absorbed", "alias", "folded", "dropped"};
  return kNames[static_cast<int>(fate)];
}

namespace {

// The plan's nodes by what they have in common with those of the model.
class Planned {
 public:
  explicit Planned(const FusionPlan& plan) {
    for (const Alias& alias : plan.aliases)
      add(*alias.result->producer(), {OperatorFate::Alias, -1});
    for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
      for (const Node* node : plan.kernels[i].nodes)
        add(*node, {OperatorFate::Kept, static_cast<int>(i)});
    }
  }

  // Null where neither id nor name is known.
  [[nodiscard]] const Origin* find(const Node& node) const {
    if (const auto found = by_id_.find(node.id()); found != by_id_.end()) return &found->second;
    const auto found = by_name_.find(node.source().name);
    return found == by_name_.end() ? nullptr : &found->second;
  }

 private:
  // Of several nodes that one of the model's became, the last in a kernel makes its result.
  void add(const Node& node, Origin origin) {
    by_id_[node.id()] = origin;
    constexpr std::string_view kJoint = " + ";
    std::string_view names = node.source().name;
    while (!names.empty()) {
      const std::size_t end = names.find(kJoint);
      by_name_[std::string(names.substr(0, end))] = origin;
      if (end == std::string_view::npos) break;
      names.remove_prefix(end + kJoint.size());
    }
    if (!node.source().name.empty()) by_name_[node.source().name] = origin;
  }

  std::unordered_map<int, Origin> by_id_;
  std::unordered_map<std::string, Origin> by_name_;
};

bool is_constant(const Node& node) {
  return node.op() == "constant";
}

// Known when the model is compiled: sizes, constants, and what is made of those alone.
std::set<const Node*> foldable_nodes(const Graph& graph) {
  std::set<const Node*> foldable;
  const auto is_known = [&](const Value* operand) {
    if (operand == nullptr) return true;
    return operand->producer() != nullptr && foldable.contains(operand->producer());
  };
  for (const auto& node : graph.nodes()) {
    const bool has_contents = node->num_results() == 1 && node->result()->contents().has_value();
    if (is_constant(*node) || has_contents || std::ranges::all_of(node->operands(), is_known)) {
      foldable.insert(node.get());
    }
  }
  return foldable;
}

}  // namespace

std::map<const Node*, Origin> trace_origins(const Graph& imported, const FusionPlan& plan) {
  const Planned planned(plan);
  const std::set<const Node*> foldable = foldable_nodes(imported);
  std::map<const Node*, Origin> origins;
  // Readers first, since what was absorbed goes by them.
  for (const auto& node : imported.nodes() | std::views::reverse) {
    if (is_constant(*node)) continue;
    if (const Origin* const found = planned.find(*node)) {
      origins[node.get()] = *found;
      continue;
    }
    if (foldable.contains(node.get())) {
      origins[node.get()] = {OperatorFate::Folded, -1};
      continue;
    }
    std::set<int> kernels;
    for (int i = 0; i < node->num_results(); ++i) {
      for (const Use& use : node->result(i)->uses()) {
        const int kernel = origins.at(use.node).kernel;
        if (kernel >= 0) kernels.insert(kernel);
      }
    }
    if (kernels.size() == 1) {
      origins[node.get()] = {OperatorFate::Absorbed, *kernels.begin()};
    } else {
      origins[node.get()] = {OperatorFate::Dropped, -1};
    }
  }
  return origins;
}

}  // namespace opweld
