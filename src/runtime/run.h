// One run of a compiled model, once its sizes are known and its inputs are found sound.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/executable.h"
#include "runtime/sized_plan.h"
#include "runtime/storage.h"
#include "support/expected.h"
#include "support/thread_team.h"

namespace opweld {

// Bytes that a run works in, kept for the next one; what they hold does not matter.
class WorkBytes {
 public:
  // False where they cannot be had.
  [[nodiscard]] bool resize(std::int64_t bytes);
  [[nodiscard]] std::byte* data() { return block_.get(); }

 private:
  std::shared_ptr<std::byte> block_;
  std::int64_t capacity_ = 0;
};

// What a run needs for itself; runs that do not overlap may use the same one after another.
struct Workspace {
  WorkBytes arena;
  std::vector<WorkBytes> scratch;          // by thread
  std::vector<std::vector<void*>> params;  // by kernel, in the order of its program's
  std::vector<ThreadTeam::Step> steps;     // of a launch
};

// What stays the same from run to run.
struct RunnablePlan {
  const Graph& graph;
  const FusionPlan& plan;
  std::span<const ExecutableKernel> kernels;
  const StorageMap& storage;
  std::span<const Tensor> constants;  // by storage index
};

// Runs all kernels and writes the outputs, in one launch if that is what `sizes` are for. Where
// several kernels fail the first one of the plan is told, and of several of its tasks the first,
// whatever ran beside them. `options.single_launch` has been decided with `sizes`.
Status run_plan(const RunnablePlan& plan, const SizedPlan& sizes, std::span<const Tensor> inputs,
                std::span<Tensor> outputs, Workspace& workspace, ThreadTeam& team, RunStats* stats,
                const RunOptions& options);

}  // namespace opweld
