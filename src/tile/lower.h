// From a fused group to its kernel.
//
// A group is handed over as a Graph of its own: the graph's inputs are what the kernel reads, its
// outputs what it writes, and its nodes what happens between. Composite operators are expanded by
// their bodies first (expand_composites), so schedules see primitives only. Because a group is a
// plain Graph, any schedule can be tried on a graph written as text.
#pragma once

#include "fusion/plan.h"
#include "graph/graph.h"
#include "support/expected.h"
#include "target/target.h"
#include "tile/blocking.h"
#include "tile/tile_ir.h"

namespace opweld::tile {

struct LoweringMemory;

struct LowerOptions {
  const Target* target = nullptr;
  // Strict numerics: every node's value is rounded to its dtype as if stored, and nothing is
  // contracted or reassociated differently from the unfused kernels.
  bool strict = false;
  // Sizes of blocks other than those that follow from the target; one of the kernel's choices.
  Blocking blocking = {};
  // Nothing but an estimate is wanted (tile/estimate.h): the program is not checked, what is in it
  // has no names, and no choices are offered. A planner asks about many kernels, and those of the
  // plan that it comes to are lowered once more.
  bool draft = false;
  // What was found out of other groups, and what will be; null: all of it is found out anew.
  LoweringMemory* memory = nullptr;
};

// The kernel's params are the group's inputs (constants of the group's constant nodes included, as
// inputs in order of appearance after the graph inputs, unless they are small enough to be
// immediate) followed by its outputs; `constants` receives what must be bound to the constant
// params.
struct LoweredKernel {
  TileProgram program;
  struct ConstantParam {
    int param;
    Tensor value;
  };
  std::vector<ConstantParam> constants;
  // Asked of a kernel that has its default sizes.
  BlockingChoices choices = {};
  // Of a chain, how many rows a task takes through all its stages, and how many its cost goes by
  // (Pressure); 0 of others.
  Dim rows_per_task = 0;
  Dim rows_per_weight = 0;
};

// Fails, with the reason, when the schedule does not serve the group.
Expected<LoweredKernel> lower(const Graph& group, KernelKind kind, const LowerOptions& options,
                              std::string name);

// Replaces composite operators by their bodies.
Status expand_composites(Graph& group);

}  // namespace opweld::tile
