#include "runtime/storage.h"

#include <algorithm>
#include <cassert>

#include "ops/op.h"

namespace opweld {

StorageMap::StorageMap(const Graph& graph, const FusionPlan& plan) {
  for (const Alias& alias : plan.aliases) aliases_[alias.result] = alias.source;
  place_inputs_and_constants(graph);
  place_outputs(graph);
  place_intermediates(plan);
  reuse_in_place(plan);
}

const Value* StorageMap::root(const Value* value) const {
  for (auto alias = aliases_.find(value); alias != aliases_.end(); alias = aliases_.find(value)) {
    value = alias->second;
  }
  return value;
}

void StorageMap::place_inputs_and_constants(const Graph& graph) {
  int index = 0;
  for (const Value* input : graph.inputs()) slots_[input] = {Place::Input, index++};
  for (const auto& node : graph.nodes()) {
    if (node->op() != "constant") continue;
    slots_[node->result()] = {Place::Constant, static_cast<int>(constants_.size())};
    constants_.push_back(node->result());
  }
}

void StorageMap::place_outputs(const Graph& graph) {
  int index = 0;
  for (const auto& output : graph.outputs()) {
    // The first output that a computed value is given out as is its place; others get copies.
    slots_.try_emplace(root(output.value), Slot{Place::Output, index});
    ++index;
  }
}

void StorageMap::place_intermediates(const FusionPlan& plan) {
  for (std::size_t step = 0; step < plan.kernels.size(); ++step) {
    const Kernel& kernel = plan.kernels[step];
    for (const Value* output : kernel.outputs) {
      if (slots_.contains(output)) continue;
      slots_[output] = {Place::Arena, static_cast<int>(arena_.size())};
      arena_.push_back({output, static_cast<int>(step), static_cast<int>(step)});
    }
    for (const Value* input : kernel.inputs) {
      const Slot from = slot(input);
      if (from.place == Place::Arena) {
        arena_[static_cast<std::size_t>(from.index)].last_step = static_cast<int>(step);
      }
    }
  }
}

void StorageMap::reuse_in_place(const FusionPlan& plan) {
  std::vector<bool> taken(arena_.size(), false);
  for (ArenaValue& value : arena_) {
    const Kernel& kernel = plan.kernels[static_cast<std::size_t>(value.first_step)];
    for (const Value* input : kernel.inputs) {
      const Slot from = slot(input);
      if (from.place != Place::Arena) continue;
      const auto index = static_cast<std::size_t>(from.index);
      if (taken[index] || arena_[index].last_step != value.first_step) continue;
      if (!may_overwrite(kernel, input, value.value)) continue;
      value.in_place_of = from.index;
      taken[index] = true;
      break;
    }
  }
}

bool may_overwrite(const Kernel& kernel, const Value* input, const Value* output) {
  if (kernel.kind != KernelKind::Map) return false;
  if (!(input->shape() == output->shape()) || input->dtype() != output->dtype()) return false;
  return std::all_of(kernel.nodes.begin(), kernel.nodes.end(), [&](const Node* node) {
    // Broadcasting reads an element at many places; equal shapes throughout rule that out for
    // `input`.
    return op_def(*node).trait == FusionTrait::Pointwise &&
           node->result()->shape() == output->shape();
  });
}

}  // namespace opweld
