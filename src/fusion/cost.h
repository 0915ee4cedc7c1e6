// Is sharing a kernel worth it?
//
// The old rule, "fuse whatever is legal", fails in one place: a producer that is inlined into a
// reader walking a larger index space (a mask computed per position and broadcast over heads and
// queries) is computed once per element of that space. The rule here: fuse when
//
//     bytes_saved / bandwidth + launches_saved * launch_seconds >= flops_added / peak_flops
//
// where bytes_saved are the boundary bytes that no longer cross (negative where a reshape, which by
// itself moves nothing, would have to be written), launches_saved is 1, or 0 where one of the two
// is such a reshape, and flops_added is the producer's work times (elements of the reader's space /
// elements of the producer - 1). Unknown sizes count as PlanOptions::nominal_size. Tunable: the
// target's three rates, and the flops charged per operator.
//
// What a kernel takes, as a whole:
//
//     max(bytes / bandwidth, multiply-adds / peak + instructions / issue rate) + launch_seconds
//
// Bytes are boundary bytes. Constants come from main memory; what other kernels wrote and will read
// comes from a cache as long as all of it fits there, else from memory too. Arithmetic is counted
// from the kernel's program (tile/work.h) and shared out among as many cores as there are tasks
// for. Tunable: the rates, by what share of each peak kernels are known to reach.
#pragma once

#include <algorithm>
#include <optional>
#include <span>

#include "fusion/legality/legality.h"

namespace opweld {

struct FusionGain {
  double bytes_saved = 0;
  double flops_added = 0;
  double seconds = 0;
};

// Where fusing is slower, by how much; else nothing.
std::optional<FusionGain> estimate_loss(const MergeCandidate& candidate,
                                        const PlanOptions& options);

// FusionGain::flops_added for whatever sizes.
Dim flops_added(const Group& producer, const Group& consumer);

// Shares of the peaks that kernels reach where nothing else holds them up.
inline constexpr double kReachedOfFlops = 0.8;
inline constexpr double kReachedOfMatrixFlops = 0.35;
// Of issuing as many other instructions as multiply-adds: latencies, and loads and stores that
// wait.
inline constexpr double kReachedOfIssue = 0.5;

struct KernelCost {
  double memory_seconds = 0;
  double compute_seconds = 0;
  double launch_seconds = 0;

  [[nodiscard]] double seconds() const {
    return std::max(memory_seconds, compute_seconds) + launch_seconds;
  }
};

// On `threads` threads, 0 for one of each core. A symbol that the sizes lack is an error.
Expected<KernelCost> kernel_cost(const Kernel& kernel, const Work& work, const Target& target,
                                 const Bindings& sizes, int threads = 0);

// For the weights that a program's tasks read, each for itself, to come to the cores: from memory,
// unless those of the whole model, `model_bytes`, stay in the cores' caches from one run to the
// next. Cores of other hardware read them at about the same time, from a cache that all share
// (Target::planned_only).
double weight_seconds(const Work& work, double model_bytes, const Target& target);

// Every symbol at the nominal size, as far as its range and divisibility allow that.
Bindings nominal_bindings(std::span<const Dim> dims, std::int64_t nominal_size);

// The same, for all that a kernel's sizes are made of.
Bindings kernel_bindings(const Kernel& kernel, std::int64_t nominal_size);

// With every symbol at its nominal size: a number of bytes or elements (infinite if it is beyond
// int64), and the elements of a shape.
double nominal_value(const Dim& dim, std::int64_t nominal_size);
double nominal_elements(const Shape& shape, std::int64_t nominal_size);

// Scalar operations that one element of the node's result costs; transcendental ones count as many.
double flops_per_element(const Node& node);

}  // namespace opweld
