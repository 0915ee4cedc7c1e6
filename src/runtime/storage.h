// Where each value of a compiled model is kept during a run.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "fusion/plan.h"
#include "graph/graph.h"
#include "runtime/memory_plan.h"

namespace opweld {

// The places are decided once; only sizes and arena offsets depend on the run.
class StorageMap {
 public:
  enum class Place : std::uint8_t {
    Input,     // the caller's tensor
    Constant,  // the graph's tensor
    Output,    // written straight into a result of the run
    Arena,     // an intermediate
  };
  struct Slot {
    Place place = Place::Arena;
    int index = 0;  // of the input, output or arena value; for constants of the list below
  };

  StorageMap(const Graph& graph, const FusionPlan& plan);

  // Of the value itself or of what it is an alias of.
  [[nodiscard]] Slot slot(const Value* value) const { return slots_.at(root(value)); }
  [[nodiscard]] const Value* root(const Value* value) const;
  [[nodiscard]] const std::vector<const Value*>& constants() const { return constants_; }

  // Arena values in the order of their indices, and their lifetimes (in_place_of set where allowed,
  // if sizes turn out equal).
  struct ArenaValue {
    const Value* value;
    int first_step;
    int last_step;
    int in_place_of = -1;
    std::vector<int> readers = {};  // kernels, in their order
  };
  [[nodiscard]] const std::vector<ArenaValue>& arena() const { return arena_; }

  // Where a kernel finds its inputs and puts its outputs, in the plan's order of them.
  struct KernelSlots {
    std::vector<Slot> inputs;
    std::vector<Slot> outputs;
  };
  [[nodiscard]] const std::vector<KernelSlots>& kernels() const { return kernels_; }

 private:
  void place_inputs_and_constants(const Graph& graph);
  void place_outputs(const Graph& graph);
  void place_intermediates(const FusionPlan& plan);
  void reuse_in_place(const FusionPlan& plan);
  void place_kernels(const FusionPlan& plan);

  std::map<const Value*, const Value*> aliases_;
  std::map<const Value*, Slot> slots_;
  std::vector<const Value*> constants_;
  std::vector<ArenaValue> arena_;
  std::vector<KernelSlots> kernels_;
};

// For each kernel of the plan those before it whose results it reads, aliases of them included.
std::vector<std::vector<int>> producers_of(const FusionPlan& plan, const StorageMap& storage);

// Whether the kernel may write `output` where `input` lies: every element of the input is read by
// the same place of the index space that writes that element of the output, and before.
bool may_overwrite(const Kernel& kernel, const Value* input, const Value* output);

}  // namespace opweld
