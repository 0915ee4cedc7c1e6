// What an attention, its projection, a norm and a router need on chip they need one after the
// other.
#include <gtest/gtest.h>

#include "fusion/planning.h"

namespace opweld::testing {
namespace {

// The attention half of a layer of 16 heads of 128, 4 of keys and values, and of 8 experts.
constexpr const char* kLayer = R"(
  graph g(%q: f16[1, 16, 2048, 128], %k: f16[1, 4, 2048, 128], %v: f16[1, 4, 2048, 128],
          %x: f16[1, 2048, 2048]) {
    %wo = constant {value = f16[2048, 2048] random 1}
    %g = constant {value = f16[2048] random 2}
    %wr = constant {value = f16[2048, 8] random 3}
    %a = attention(%q, %k, %v) {scale = 0.0883883, causal = "top_left"}
    %t = transpose(%a) {permutation = [0, 2, 1, 3]}
    %r = reshape(%t) {shape = <1, 2048, 2048>}
    %m = matmul(%r, %wo)
    %h = add(%m, %x)
    %n = rms_norm(%h, %g) {axis = -1, epsilon = 1e-05}
    %rows = reshape(%n) {shape = <2048, 2048>}
    %l = matmul(%rows, %wr)
    %p = softmax(%l) {axis = -1}
    %w, %i = top_k(%p) {axis = 1, k = <2>}
    %sum = reduce_sum(%w) {axes = [1], keepdims = 1}
    %share = div(%w, %sum)
    return %h as "h", %n as "n", %share as "share", %i as "i"
  })";

TEST(AttentionRouter, IsOneKernelWhereItIsAskedFor) {
  PlanSettings settings;
  settings.target.cores = 2;
  settings.target.l2_bytes = 2 << 20;
  settings.target.on_chip_bytes = 1 << 20;
  settings.target.outer_bytes = 8 << 20;
  EXPECT_EQ(PlannedGraph(kLayer, settings).plan().kernels.size(), 2U);
  settings.attention_chains = true;
  EXPECT_EQ(PlannedGraph(kLayer, settings).text(),
            "0 chain: attention + transpose + reshape + matmul + add + rms_norm + reshape + matmul "
            "+ softmax + top_k + reduce_sum + div\n");
}

}  // namespace
}  // namespace opweld::testing
