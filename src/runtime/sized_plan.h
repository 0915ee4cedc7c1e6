// Everything about a run that its sizes decide.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/executable.h"
#include "runtime/memory_plan.h"
#include "runtime/single_launch.h"
#include "runtime/storage.h"
#include "support/expected.h"

namespace opweld {

struct SizedPlan {
  Bindings bindings;
  std::size_t version = 0;  // of the executable
  MemoryPlan memory;
  std::vector<Sizes> output_sizes;
  struct KernelSizes {
    std::vector<std::int64_t> symbols;  // of the kernel's program, in order
    std::int64_t tasks = 0;             // 1 for a call
    std::int64_t scratch_bytes = 0;
    // What the tasks share: where in the arena, by shared param.
    struct Shared {
      std::int64_t offset = 0;
      std::int64_t bytes = 0;
      bool zeroed = false;  // before the kernel, or before the launch that it is part of
    };
    std::vector<Shared> shared;
    std::int64_t bytes_read = 0;
    std::int64_t bytes_written = 0;
  };
  std::vector<KernelSizes> kernels;
  std::int64_t scratch_bytes = 0;  // the largest of any kernel, for each thread
  // The most that the results of kernels take up at once when these run one after another.
  std::int64_t live_bytes = 0;
  // Absent where each kernel is a launch. Places in the arena are those of one or the other: in one
  // launch, values of the same stretch do not share them.
  std::optional<SingleLaunch> launch;
};

// For one set of symbol values, which must satisfy the graph's assumptions.
Expected<SizedPlan> size_plan(const Graph& graph, const PlanVersion& version,
                              const StorageMap& storage, const Bindings& bindings,
                              bool single_launch);

}  // namespace opweld
