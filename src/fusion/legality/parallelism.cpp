// A chain leaves its stages less to share out among threads than they have alone.
//
// Tasks that own rows go through all weights, each for itself; where there are few rows, weights
// would come from memory as often as there are tasks, and tasks would be too few. Tasks that share
// rows are cut by the last matmul's columns, and there may be fewer of them than cores.
//
// Cores are the target's, whatever number of threads a run has: a chain rounds in other places than
// the kernels that it replaces, and results must not depend on threads.
#include <algorithm>

#include "fusion/cost.h"
#include "fusion/legality/legality.h"

namespace opweld {

namespace {

// An unknown size may be any; that of a sequence is 1 for most of the time that text is generated.
constexpr std::int64_t kSmallest = 1;
// More rows than any task has.
constexpr std::int64_t kMany = std::int64_t{1} << 16;
// So many rows hide weights that come from memory. Feed-forwards of decoders were slower in one
// kernel than in two at 64 rows a thread, and faster at 128 (`opweld bench` of the same graph with
// rows fixed and free); this is between the two.
constexpr std::int64_t kRowsThatPay = 96;

bool pays(const Pressure& kernel, std::int64_t unknown_size) {
  return nominal_value(kernel.rows_per_task, unknown_size) >= kRowsThatPay;
}

Legality check_rows(const Pressure& kernel, const PlanOptions& options) {
  if (pays(kernel, options.many_rows ? kMany : kSmallest)) return std::nullopt;
  const bool when_larger = pays(kernel, kMany);
  const double rows = nominal_value(kernel.rows_per_task, when_larger ? kSmallest : kMany);
  return Refusal{ReasonCode::Cost,
                 fmt::format("a thread {} {:.0f} rows, and {} pay for going through all weights{}",
                             when_larger ? "may have as few as" : "would have", rows, kRowsThatPay,
                             when_larger ? "; where there are as many, another plan is run" : ""),
                 when_larger};
}

double tasks_alone(const Group& group, const PlanOptions& options) {
  if (group.only_aliases()) return 0;
  const auto alone = options.oracle(kernel_of(group));
  return alone ? nominal_value(alone->pressure.tasks, kSmallest) : 0;
}

}  // namespace

Legality check_parallelism(const MergeCandidate& candidate, const Pressure& kernel,
                           const PlanOptions& options) {
  if (candidate.merged.kind != KernelKind::Chain) return std::nullopt;
  if (kernel.rows_per_task != Dim(0)) return check_rows(kernel, options);
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

std::optional<SizeCondition> rows_asked_for(const std::string& kernel_name,
                                            const Pressure& kernel) {
  if (kernel.rows_per_task.is_constant()) return std::nullopt;
  return SizeCondition{kernel.rows_per_task, kRowsThatPay, "rows of a task of " + kernel_name};
}

}  // namespace opweld
