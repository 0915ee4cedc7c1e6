#include "runtime/storage.h"

#include <algorithm>
#include <cassert>
#include <set>

#include "ops/op.h"

namespace opweld {

StorageMap::StorageMap(const Graph& graph, const FusionPlan& plan) {
  for (const Alias& alias : plan.aliases) aliases_[alias.result] = alias.source;
  place_inputs_and_constants(graph);
  place_outputs(graph);
  place_intermediates(plan);
  reuse_in_place(plan);
  place_kernels(plan);
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
  // What lies in place of an input lies nowhere else.
  for (const auto& output : graph.outputs()) {
    if (output.in_place_of != nullptr) slots_.emplace(output.value, Slot{Place::Output, index});
    ++index;
  }
  index = 0;
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
      arena_.push_back({output, static_cast<int>(step), static_cast<int>(step), -1, {}});
    }
    for (const Value* input : kernel.inputs) {
      const Slot from = slot(input);
      if (from.place == Place::Arena) {
        ArenaValue& value = arena_[static_cast<std::size_t>(from.index)];
        value.last_step = static_cast<int>(step);
        if (value.readers.empty() || value.readers.back() != value.last_step) {
          value.readers.push_back(value.last_step);
        }
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

void StorageMap::place_kernels(const FusionPlan& plan) {
  for (const Kernel& kernel : plan.kernels) {
    KernelSlots slots;
    for (const Value* input : kernel.inputs) slots.inputs.push_back(slot(input));
    for (const Value* output : kernel.outputs) slots.outputs.push_back(slot(output));
    kernels_.push_back(std::move(slots));
  }
}

std::vector<std::vector<int>> producers_of(const FusionPlan& plan, const StorageMap& storage) {
  std::map<const Value*, int> writer;
  std::vector<std::vector<int>> producers;
  for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
    std::set<int> found;
    for (const Value* input : plan.kernels[i].inputs) {
      const auto written = writer.find(storage.root(input));
      if (written != writer.end()) found.insert(written->second);
    }
    producers.emplace_back(found.begin(), found.end());
    for (const Value* output : plan.kernels[i].outputs) writer[output] = static_cast<int>(i);
  }
  return producers;
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
