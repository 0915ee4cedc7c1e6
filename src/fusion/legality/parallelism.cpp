// A chain leaves its stages less to share out among threads than they have alone.
//
// Tasks that share rows are cut by the last matmul's columns, and there may be fewer of them than
// cores. (Whether those that own rows have enough is a matter of cost: chain_cost.cpp.)
//
// Cores are the target's, whatever number of threads a run has: a chain rounds in other places than
// the kernels that it replaces, and results must not depend on threads.
#include <algorithm>

#include "fusion/cost.h"
#include "fusion/legality/legality.h"

namespace opweld {

namespace {

// An unknown size may be any.
constexpr std::int64_t kSmallest = 1;

double tasks_alone(const Group& group, const PlanOptions& options) {
  if (group.only_aliases()) return 0;
  const auto alone = options.oracle(kernel_of(group));
  return alone ? nominal_value(alone->pressure.tasks, kSmallest) : 0;
}

}  // namespace

Legality check_parallelism(const MergeCandidate& candidate, const Pressure& kernel,
                           const PlanOptions& options) {
  if (candidate.merged.kind != KernelKind::Chain) return std::nullopt;
  if (kernel.rows_per_task != Dim(0)) return std::nullopt;
  const double tasks = nominal_value(kernel.tasks, kSmallest);
  const auto cores = static_cast<double>(options.target->cores);
  if (tasks >= cores) return std::nullopt;
  const double before =
      std::max(tasks_alone(candidate.producer, options), tasks_alone(candidate.consumer, options));
  if (tasks >= before) return std::nullopt;
  return Refusal{ReasonCode::Cost,
                 fmt::format("{:.0f} tasks at the least, where {:.0f} cores could be busy", tasks,
                             std::min(cores, before))};
}

bool keeps_cores_busy(const Pressure& chain, const PlanOptions& options) {
  if (chain.rows_per_task != Dim(0)) return true;
  return nominal_value(chain.tasks, kSmallest) >= static_cast<double>(options.target->cores);
}

}  // namespace opweld
