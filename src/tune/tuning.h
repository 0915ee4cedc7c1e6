// Block sizes that were measured on this machine, and the file that keeps them.
//
// The file is tuning.json in the cache folder. It serves several machines (a home on a network) and
// versions, each under a key of its own; only what stands under the own key is looked at. It is a
// cache: a file that is missing, damaged or not ours is no tuning, and the next measurement writes
// a whole one in its place.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "fusion/plan.h"
#include "support/expected.h"
#include "target/target.h"
#include "tile/blocking.h"

namespace opweld {

struct TunedChoice {
  tile::Blocking blocking;  // the default, where nothing else was better by enough
  double gain = 0;          // by what share of its time the kernel became faster
  std::string sizes;        // that it was measured at: "batch = 1, sequence = 128"

  bool operator==(const TunedChoice&) const = default;
};

// By class of kernels (kernel_class).
using Tuning = std::map<std::string, TunedChoice>;

// "contract matmul + gelu: f32 * x 384 . f32 384 x 1536; 2 threads". Attention has its choice in
// common for all numbers of threads, since results may differ by it and must not by them.
std::string kernel_class(const Kernel& kernel, const tile::BlockingChoices& choices, int threads,
                         bool strict);

// All that choices depend on beside the kernel: version of Opweld, target, processor and its
// caches.
std::string machine_key(const Target& target);

// What the text of such a file says under the machine's key; entries that make no sense are left
// out.
Tuning parse_tuning(std::string_view text, const std::string& machine);

// From `folder`/tuning.json. No folder ("") is no tuning.
Tuning load_tuning(const std::string& folder, const std::string& machine);

// Adds to what the file holds, in place of older choices of the same classes; makes folder and file
// as needed. Several processes may do so at once: none loses another's choices, and a reader sees
// the file before or after, never half of it.
Status store_tuning(const std::string& folder, const std::string& machine, const Tuning& tuning);

}  // namespace opweld
