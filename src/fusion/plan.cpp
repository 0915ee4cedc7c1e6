#include "fusion/plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "ops/stored_weights.h"
#include "support/pointer_map.h"

namespace opweld {

std::string_view to_string(KernelKind kind) {
  constexpr std::string_view kNames[] = {"map",   "row",       "reduce", "contract",
                                         "chain", "attention", "move",   "extern"};
  return kNames[static_cast<int>(kind)];
}

bool SizeCondition::holds(const Bindings& bindings) const {
  const auto value = size.evaluate(bindings);
  return value && *value >= least;
}

bool FusionPlan::is_for(const Bindings& bindings) const {
  return std::ranges::all_of(conditions,
                             [&](const SizeCondition& each) { return each.holds(bindings); });
}

void number_versions(std::span<FusionPlan> plans) {
  if (plans.size() < 2) return;
  std::vector<PlanSummary> versions;
  for (const FusionPlan& plan : plans) {
    versions.push_back({static_cast<std::int64_t>(plan.kernels.size()), plan.conditions});
  }
  for (std::size_t i = 0; i < plans.size(); ++i) {
    plans[i].versions = versions;
    plans[i].version = i;
  }
}

int operators_of(const Node& node) {
  return is_weight_prologue(node) ? 0 : node.source().operators;
}

namespace {

template <typename T>
void add_once(std::vector<T*>& list, T* item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

// "layers.0" when all that have a scope agree on it. What is computed in other kernels as well says
// nothing of this one.
std::string common_scope(const Kernel& kernel) {
  std::string scope;
  for (const Node* node : kernel.nodes) {
    if (std::ranges::find(kernel.recomputed, node) != kernel.recomputed.end()) continue;
    const std::string& own = node->source().scope;
    if (own.empty()) continue;
    if (!scope.empty() && scope != own) return {};
    scope = own;
  }
  return scope;
}

// The nodes of a kernel, by the ids that they have in their graph.
class NodeSet {
 public:
  explicit NodeSet(std::span<Node* const> nodes) {
    if (nodes.empty()) return;
    const auto [least, most] = std::ranges::minmax(nodes, {}, &Node::id);
    first_ = least->id();
    is_inside_.resize(static_cast<std::size_t>(most->id() - first_ + 1));
    for (const Node* node : nodes) is_inside_[static_cast<std::size_t>(node->id() - first_)] = true;
  }

  [[nodiscard]] bool contains(const Node* node) const {
    if (node == nullptr || node->id() < first_) return false;
    const auto place = static_cast<std::size_t>(node->id() - first_);
    return place < is_inside_.size() && is_inside_[place];
  }

 private:
  int first_ = 0;
  std::vector<bool> is_inside_;
};

}  // namespace

void find_boundary(Kernel& kernel) {
  const NodeSet nodes(kernel.nodes);
  const auto is_inside = [&nodes](const Node* node) { return nodes.contains(node); };
  kernel.inputs.clear();
  kernel.constants.clear();
  kernel.outputs.clear();
  for (const Node* node : kernel.nodes) {
    for (Value* operand : node->operands()) {
      if (operand == nullptr || is_inside(operand->producer())) continue;
      const Node* producer = operand->producer();
      const bool constant = producer != nullptr && producer->op() == "constant";
      add_once(constant ? kernel.constants : kernel.inputs, operand);
    }
    if (std::ranges::find(kernel.recomputed, node) != kernel.recomputed.end()) continue;
    for (int i = 0; i < node->num_results(); ++i) {
      Value* result = node->result(i);
      const auto& uses = result->uses();
      const bool read_outside = std::any_of(uses.begin(), uses.end(),
                                            [&](const Use& use) { return !is_inside(use.node); });
      if (read_outside || result->is_graph_output()) add_once(kernel.outputs, result);
    }
  }
}

void complete_kernel(Kernel& kernel) {
  find_boundary(kernel);
  int operators = 0;
  std::size_t nodes = 0;
  for (const Node* node : kernel.nodes) {
    operators += operators_of(*node);
    nodes += is_weight_prologue(*node) ? 0 : 1;
  }
  std::vector<std::string_view> names;
  for (const Node* node : named_operators(kernel)) names.push_back(operator_name(*node));
  kernel.scope = common_scope(kernel);
  kernel.label = fmt::format("{}", fmt::join(names, " + "));
  const bool is_fused = nodes > 1 || operators > 1;
  kernel.name = fmt::format("{}_{}", is_fused ? "FusedKernel" : "Kernel", kernel.id);
}

std::string_view operator_name(const Node& node) {
  return node.source().op.empty() ? node.op() : node.source().op;
}

std::vector<const Node*> named_operators(const Kernel& kernel) {
  const bool any =
      std::ranges::any_of(kernel.nodes, [](const Node* node) { return operators_of(*node) > 0; });
  std::vector<const Node*> named;
  for (const Node* node : kernel.nodes) {
    // What only takes a merged result apart is named where nothing else is.
    if (any && operators_of(*node) == 0) continue;
    const Source& source = node->source();
    const bool is_named =
        std::ranges::any_of(named, [&](const Node* other) { return other->source() == source; });
    if (is_named && !source.name.empty()) continue;
    named.push_back(node);
  }
  return named;
}

Graph extract_group(const Kernel& kernel) {
  Graph group(kernel.name);
  PointerMap<Value, Value*> copies;
  for (const Value* input : kernel.inputs) copies[input] = group.add_input("", input->type());
  for (const Value* constant : kernel.constants) {
    const Node* node = constant->producer();
    copies[constant] =
        group.add_node("constant", {}, node->attributes(), {constant->type()})->result();
  }
  for (const Node* node : kernel.nodes) {
    std::vector<Value*> operands;
    operands.reserve(node->operands().size());
    for (const Value* operand : node->operands()) {
      operands.push_back(operand == nullptr ? nullptr : copies.at(operand));
    }
    std::vector<TensorType> types;
    types.reserve(static_cast<std::size_t>(node->num_results()));
    for (int i = 0; i < node->num_results(); ++i) types.push_back(node->result(i)->type());
    const Node* copy = group.add_node(node->op(), std::move(operands), node->attributes(),
                                      std::move(types), node->source());
    for (int i = 0; i < node->num_results(); ++i) {
      copies[node->result(i)] = copy->result(i);
      copy->result(i)->set_contents(node->result(i)->contents());
    }
  }
  for (std::size_t i = 0; i < kernel.outputs.size(); ++i) {
    group.add_output(fmt::format("y{}", i), copies.at(kernel.outputs[i]));
  }
  return group;
}

std::string check_plan(const Graph& graph, const FusionPlan& plan) {
  std::set<const Node*> placed;
  std::map<const Node*, int> recomputed;  // in how many kernels
  std::set<const Value*> available;
  for (const Value* input : graph.inputs()) available.insert(input);
  for (const auto& node : graph.nodes()) {
    if (node->op() == "constant") available.insert(node->result());
  }
  // Aliases are there as soon as their source is.
  const auto settle_aliases = [&]() {
    for (const Alias& alias : plan.aliases) {
      if (available.contains(alias.source)) available.insert(alias.result);
    }
  };
  settle_aliases();
  for (const Alias& alias : plan.aliases) {
    if (!placed.insert(alias.result->producer()).second) {
      return fmt::format("{} is placed twice", alias.result->producer()->display_name());
    }
  }
  for (const Kernel& kernel : plan.kernels) {
    for (const Value* input : kernel.inputs) {
      if (!available.contains(input)) {
        return fmt::format("{} reads a value that is not computed yet", kernel.name);
      }
    }
    std::size_t copies = 0;
    for (const Node* node : kernel.nodes) {
      const bool is_copy = std::ranges::find(kernel.recomputed, node) != kernel.recomputed.end();
      const bool is_other = is_copy && ++recomputed[node] > 1;
      if (is_copy) ++copies;
      if (!placed.insert(node).second && !is_other) {
        return fmt::format("{} is placed twice", node->display_name());
      }
    }
    if (copies != kernel.recomputed.size()) {
      return fmt::format("{} recomputes what it does not hold", kernel.name);
    }
    for (const Value* output : kernel.outputs) available.insert(output);
    settle_aliases();
  }
  for (const auto& [node, kernels] : recomputed) {
    if (kernels == 1) return fmt::format("{} is recomputed nowhere", node->display_name());
  }
  for (const auto& node : graph.nodes()) {
    if (node->op() != "constant" && !placed.contains(node.get())) {
      return fmt::format("{} is in no kernel", node->display_name());
    }
  }
  for (const auto& output : graph.outputs()) {
    if (!available.contains(output.value)) {
      return fmt::format("output '{}' is not written", output.name);
    }
  }
  return {};
}

std::string to_text(const FusionPlan& plan) {
  std::string text;
  for (const Kernel& kernel : plan.kernels) {
    std::vector<std::string> names;
    names.reserve(kernel.nodes.size());
    for (const Node* node : kernel.nodes) {
      const bool again = std::ranges::find(kernel.recomputed, node) != kernel.recomputed.end();
      names.push_back(again ? "again " + node->op() : node->op());
    }
    text += fmt::format("{} {}: {}\n", kernel.id, to_string(kernel.kind), fmt::join(names, " + "));
  }
  for (const Alias& alias : plan.aliases) {
    text += fmt::format("alias: {}\n", alias.result->producer()->op());
  }
  return text;
}

}  // namespace opweld
