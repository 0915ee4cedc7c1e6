// What one task keeps on chip stays under the target's limit.
//
// The classic rule refuses every kernel beyond the limit. The full rules ask what fusing has to do
// with it: a softmax over a row that no cache holds is no better off without the operator before
// it, so only a kernel that needs noticeably more than the hungrier of the two does alone is
// refused.
#include "fusion/cost.h"
#include "fusion/legality/legality.h"

namespace opweld {

namespace {

constexpr double kBytesPerKiB = 1024;

double needed_bytes(const Pressure& kernel, const PlanOptions& options) {
  return nominal_value(kernel.on_chip_bytes(*options.target), options.nominal_size);
}

// Of the group as a kernel of its own; nothing where it is not one.
double needed_alone(const Group& group, const PlanOptions& options) {
  if (group.only_aliases()) return 0;
  const auto alone = options.oracle(kernel_of(group));
  return alone ? needed_bytes(alone->pressure, options) : 0;
}

}  // namespace

bool fits_on_chip(const Pressure& kernel, const PlanOptions& options) {
  const double outer = nominal_value(kernel.outer_bytes, options.nominal_size);
  return outer <= static_cast<double>(options.target->outer_bytes) &&
         needed_bytes(kernel, options) <= static_cast<double>(options.target->on_chip_bytes);
}

Legality check_pressure(const MergeCandidate& candidate, const Pressure& kernel,
                        const PlanOptions& options) {
  const double outer = nominal_value(kernel.outer_bytes, options.nominal_size);
  if (outer > static_cast<double>(options.target->outer_bytes)) {
    return Refusal{
        ReasonCode::Pressure,
        fmt::format("keeps {:.1f} KiB of {:.1f} KiB in the outer cache", outer / kBytesPerKiB,
                    static_cast<double>(options.target->outer_bytes) / kBytesPerKiB)};
  }
  const double needed = needed_bytes(kernel, options);
  const auto limit = static_cast<double>(options.target->on_chip_bytes);
  if (needed <= limit) return std::nullopt;
  if (options.rules == RuleSet::Full) {
    // Where one is beyond the limit by itself, some spilled registers more make no difference.
    constexpr double kNoticeably = 1.05;
    const auto needs_more_than = [&](const Group& group) {
      const double alone = needed_alone(group, options);
      return needed > (alone > limit ? alone * kNoticeably : alone);
    };
    const bool grows = needs_more_than(candidate.producer) && needs_more_than(candidate.consumer);
    if (!grows) return std::nullopt;
  }
  return Refusal{ReasonCode::Pressure, fmt::format("needs {:.1f} KiB of {:.1f} KiB on chip",
                                                   needed / kBytesPerKiB, limit / kBytesPerKiB)};
}

}  // namespace opweld
