// The account of a compiled model: what was fused, what was not and why, and what that moves.
//
// Bytes are counted at kernel boundaries: each tensor that a kernel reads or writes, once, weights
// included, at given values of the model's symbols. What never leaves a kernel costs nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace opweld {

struct KernelAccount {
  std::string name;       // "FusedKernel_3", or "Kernel_3" for a single operator
  std::string kind;       // the family of schedules: "map", "row", "contract", "attention" ...
  std::string operators;  // as people read them: "matmul + add + gelu"
  std::string layer;      // the layer that its operators share; may be empty
  // All operators of the user's model that it does the work of, by their names there.
  std::vector<std::string> sources;
  std::int64_t bytes_read = 0;
  std::int64_t bytes_written = 0;
  // In a single launch, how many barriers are before it: kernels of the same stretch run beside
  // each other. 0 otherwise.
  int stretch = 0;
};

// The one verdict on an edge of the graph, from a producer to a consumer.
struct EdgeAccount {
  std::string from;  // by their names in the user's model
  std::string to;
  bool fused = false;
  int kernel = -1;         // index of the kernel that holds both, if fused
  std::string code;        // "F-FORK"; empty if fused. docs/reasons.md lists them
  std::string sentence;    // what the code means
  std::string detail;      // "3 readers"; may be empty
  std::string remedy;      // what a user can do
  std::int64_t bytes = 0;  // that fusing saves (fused) or would save
  // Operations that it adds or would add, where the consumer computes the producer anew for every
  // element that it reads.
  std::int64_t flops = 0;
};

struct Account {
  std::vector<KernelAccount> kernels;  // in order of execution; in a single launch see `stretch`
  std::vector<EdgeAccount> edges;
  // "AutoFusion: matmul + add -> FusedKernel_3 [layers.0] saves 1.2 MB, 1 kernel" for every fused
  // kernel, then "AutoFusion: keep A | B: fork (3 readers) [F-FORK] hint: ..." for every edge that
  // was kept.
  std::vector<std::string> log;
  // "Tuning: FusedKernel_3 (matmul + gelu): panels 4, 7.2 % faster than the default at s = 128" for
  // every kernel whose block sizes were measured to be better than the default's.
  std::vector<std::string> tuning;
  // Operators that run as calls since no schedule serves them, with the reason; caches that are
  // copied although they need not be, with the way out.
  std::vector<std::string> notes;
  std::int64_t bytes_read = 0;  // the sums over the kernels
  std::int64_t bytes_written = 0;
  // Hand-overs to the threads in a run: one for each kernel, or one for all of them with
  // CompileSettings::single_launch, inside which threads wait for each other at barriers.
  std::int64_t launches = 0;
  std::int64_t barriers = 0;
};

}  // namespace opweld
