#include "fusion/plan_versions.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fusion/cost.h"
#include "fusion/search_memory.h"

namespace opweld {

namespace {

// A chain that asks for up to so many times the rows that a plan begins with is made in it. Rules
// ask for a third more than what was measured to be enough (legality/chain_cost.cpp).
constexpr double kAlike = 1.125;

// Planning more often would cost more than it gives; the last time, any number of rows is granted.
constexpr std::size_t kMostTries = 8;

// What a graph's kernels move across their edges, with unknown sizes at nominal ones.
double moved_bytes(const FusionPlan& plan, std::int64_t nominal_size) {
  double bytes = 0;
  for (const Kernel& kernel : plan.kernels) {
    bytes += nominal_value(FusionPlan::bytes_read(kernel), nominal_size) +
             nominal_value(FusionPlan::bytes_written(kernel), nominal_size);
  }
  return bytes;
}

// A plan, and the rows of a task from which on it is meant.
struct Version {
  FusionPlan plan;
  std::int64_t from_rows = 0;
  double moved_bytes = 0;
};

bool is_better(const Version& more_rows, const Version& fewer_rows) {
  constexpr double kMargin = 0.02;
  const std::size_t kernels = more_rows.plan.kernels.size();
  const std::size_t before = fewer_rows.plan.kernels.size();
  if (kernels != before) return kernels < before;
  return more_rows.moved_bytes < fewer_rows.moved_bytes * (1 - kMargin);
}

bool is_alike(std::int64_t rows, std::int64_t from_rows) {
  return static_cast<double>(rows) <= kAlike * static_cast<double>(from_rows);
}

// The plan is for so many rows, though some of its chains ask for a little more. Returns the rows
// from which on it is for a run: more where chains were granted any number.
std::int64_t begin_at(FusionPlan& plan, std::int64_t from_rows) {
  std::int64_t most = from_rows;
  for (SizeCondition& each : plan.conditions) {
    if (is_alike(each.least, from_rows)) each.least = std::min(each.least, from_rows);
    most = std::max(most, each.least);
  }
  return most;
}

// Leaves the version out whose sizes lose least by the plan below it. `versions` are by rows: the
// first is for any sizes, and the last for all that are larger, so that both stay.
void leave_one_out(std::vector<Version>& versions) {
  std::size_t least = 1;
  double least_loss = HUGE_VAL;
  for (std::size_t i = 1; i + 1 < versions.size(); ++i) {
    const double kernels = static_cast<double>(versions[i - 1].plan.kernels.size()) -
                           static_cast<double>(versions[i].plan.kernels.size());
    const double reach = std::log(static_cast<double>(versions[i + 1].from_rows) /
                                  static_cast<double>(versions[i].from_rows));
    if (kernels * reach >= least_loss) continue;
    least_loss = kernels * reach;
    least = i;
  }
  versions.erase(versions.begin() + static_cast<std::ptrdiff_t>(least));
}

}  // namespace

Expected<std::vector<FusionPlan>> plan_versions(const Graph& graph, PlanOptions options) {
  std::vector<Version> versions;
  SearchMemory memory;
  options.memory = &memory;
  std::int64_t from_rows = 0;
  for (std::size_t tries = 1; tries == 1 || from_rows > 0; ++tries) {
    const double granted = kAlike * static_cast<double>(from_rows);
    options.rows_granted = tries < kMostTries ? granted : std::numeric_limits<double>::infinity();
    OPWELD_TRY(FusionPlan plan, plan_fusion(graph, options));
    const std::int64_t next = plan.more_from_rows;
    Version version{std::move(plan), from_rows, 0};
    version.from_rows = begin_at(version.plan, from_rows);
    if (next > 0 || !versions.empty()) {
      version.moved_bytes = moved_bytes(version.plan, options.nominal_size);
    }
    // A merge that came before may have made impossible what asks for rows.
    const bool is_kept = versions.empty() ||
                         (!version.plan.conditions.empty() && is_better(version, versions.back()));
    if (is_kept) versions.push_back(std::move(version));
    from_rows = next;
  }
  while (versions.size() > kMostVersions) leave_one_out(versions);
  std::vector<FusionPlan> plans;
  for (auto version = versions.rbegin(); version != versions.rend(); ++version) {
    plans.push_back(std::move(version->plan));
  }
  number_versions(plans);
  return plans;
}

}  // namespace opweld
