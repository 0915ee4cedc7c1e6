// Kernels of every schedule that store what they compute straight into a cache.
#include <gmock/gmock.h>

#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

constexpr std::int64_t kLength = 40;  // rows of every cache

// Checks the kernel, with write indices `starts`, over numbers of rows `s` and batches of as many.
void expect_right(const GroupRunner& runner, const std::vector<std::int64_t>& starts) {
  ASSERT_EQ(runner.error(), "");
  const auto batch = static_cast<std::int64_t>(starts.size());
  for (const std::int64_t s : {0, 1, 5, 6, 17}) {
    SCOPED_TRACE(s);
    std::vector<Tensor> inputs = runner.random_inputs({{"b", batch}, {"s", s}});
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (runner.graph().inputs()[i]->name() != "at") continue;
      for (std::int64_t j = 0; j < batch; ++j) {
        inputs[i].set_int(j, starts[static_cast<std::size_t>(j)]);
      }
    }
    runner.check(inputs);
  }
}

void expect_right(const std::string& text, KernelKind kind) {
  for (const std::string target : {"host-generic", "host-avx2", "host-avx512", "host-amx"}) {
    if (!find_target(target)) continue;
    SCOPED_TRACE(target);
    const GroupRunner runner(text, kind, target);
    expect_right(runner, {3});
    expect_right(runner, {0, 23, 7});
  }
}

TEST(ScatteredOutput, OfAMap) {
  const std::string head = "graph g(%x: f32[b, 3, s, 20], %c: f32[b, 3, 40, 20], %at: i64[b]) {\n";
  expect_right(head + R"(%y = tanh(%x)
    %p = tensor_scatter(%c, %y, %at) {axis = 2, mode = "linear"}
    return %p as "p" })",
               KernelKind::Map);
  // What is written is given out, too.
  expect_right(head + R"(%y = tanh(%x)
    %p = tensor_scatter(%c, %y, %at) {axis = 2, mode = "linear"}
    return %y as "y", %p as "p" })",
               KernelKind::Map);
}

TEST(ScatteredOutput, BehindTransposes) {
  expect_right(R"(graph g(%x: f16[b, s, 3, 20], %c: f16[b, 3, 40, 20], %at: i32[b]) {
    %t = transpose(%x) {permutation = [0, 2, 1, 3]}
    %p = tensor_scatter(%c, %t, %at) {axis = 2, mode = "linear"}
    return %p as "p" })",
               KernelKind::Map);
  // Walked in the order of x, in which sequences are lanes.
  expect_right(R"(graph g(%x: f32[s, b], %c: f32[b, 40], %at: i64[b]) {
    %y = tanh(%x)
    %t = transpose(%y) {permutation = [1, 0]}
    %p = tensor_scatter(%c, %t, %at) {axis = 1, mode = "linear"}
    return %y as "y", %p as "p" })",
               KernelKind::Map);
}

TEST(ScatteredOutput, RowsAsLanes) {
  for (const char* const mode : {"linear", "circular"}) {
    expect_right(fmt::format(R"(graph g(%x: i64[b, s], %c: i64[b, 40], %at: i64[b]) {{
      %y = neg(%x)
      %p = tensor_scatter(%c, %y, %at) {{axis = 1, mode = "{}"}}
      return %p as "p" }})",
                             mode),
                 KernelKind::Map);
  }
}

TEST(ScatteredOutput, FromTheBeginning) {
  expect_right(R"(graph g(%x: f32[b, s, 7], %c: f32[b, 40, 7]) {
    %y = exp(%x)
    %p = tensor_scatter(%c, %y) {axis = 1, mode = "linear"}
    return %p as "p" })",
               KernelKind::Map);
}

TEST(ScatteredOutput, AroundTheEnd) {
  const GroupRunner runner(R"(graph g(%x: f32[b, 2, s, 9], %c: f32[b, 2, 40, 9], %at: i64[b]) {
    %y = neg(%x)
    %p = tensor_scatter(%c, %y, %at) {axis = 2, mode = "circular"}
    return %p as "p" })",
                           KernelKind::Map);
  expect_right(runner, {kLength - 2, -1, 3 * kLength + 38, 0, -kLength, kLength});
}

TEST(ScatteredOutput, OfANorm) {
  expect_right(R"(graph g(%x: bf16[b, 3, s, 24], %c: bf16[b, 3, 40, 24], %at: i64[b]) {
    %y = rms_norm(%x) {axis = -1, epsilon = 1e-06}
    %p = tensor_scatter(%c, %y, %at) {axis = 2, mode = "linear"}
    return %p as "p" })",
               KernelKind::Row);
}

TEST(ScatteredOutput, OfAReduction) {
  // Of a few elements it is a few operators, and no reduction.
  for (const auto& [reduced, kind] : {std::pair(11, KernelKind::Reduce), {3, KernelKind::Map}}) {
    expect_right(fmt::format(R"(graph g(%x: f32[b, s, {}, 24], %c: f32[b, 40, 24], %at: i64[b]) {{
      %y = reduce_max(%x) {{axes = [2], keepdims = 0}}
      %p = tensor_scatter(%c, %y, %at) {{axis = 1, mode = "linear"}}
      return %p as "p" }})",
                             reduced),
                 kind);
  }
}

TEST(ScatteredOutput, OfAMatmul) {
  for (const char* const mode : {"linear", "circular"}) {
    expect_right(fmt::format(R"(graph g(%x: f32[b, s, 19], %c: f32[b, 40, 37], %at: i64[b]) {{
      %w = constant {{value = f32[19, 37] random 1}}
      %m = matmul(%x, %w)
      %p = tensor_scatter(%c, %m, %at) {{axis = 1, mode = "{}"}}
      return %p as "p" }})",
                             mode),
                 KernelKind::Contract);
  }
}

// Keys turned, values as they are, each into a cache of its own; queries go on.
std::string projections(const std::string& dtype, bool norm, const std::string& mode) {
  const auto take = [](const std::string& name, int first, int heads) {
    return fmt::format(
        "%{0}s = slice(%m) {{starts = <0, 0, {1}>, sizes = <b, s, {2}>, steps = [1, 1, 1]}}\n"
        "%{0}r = reshape(%{0}s) {{shape = <b, s, {3}, 64>}}\n"
        "%{0} = transpose(%{0}r) {{permutation = [0, 2, 1, 3]}}\n",
        name, first * 64, heads * 64, heads);
  };
  return fmt::format(
             "graph g(%x: {0}[b, s, 24], %cos: {0}[s, 32], %sin: {0}[s, 32], %ck: {0}[b, 2, 40, "
             "64], %cv: {0}[b, 2, 40, 64], %at: i64[b]) {{\n%w = constant {{value = {0}[24, 448] "
             "random 1}}\n%g = constant {{value = {0}[24] random 2}}\n",
             dtype) +
         (norm ? "%n = rms_norm(%x, %g) {axis = -1, epsilon = 1e-06}\n%m = matmul(%n, %w)\n"
               : "%m = matmul(%x, %w)\n") +
         take("q", 0, 3) + take("k", 3, 2) + take("v", 5, 2) +
         fmt::format(R"(%qt = rope(%q, %cos, %sin)
           %kt = rope(%k, %cos, %sin)
           %pk = tensor_scatter(%ck, %kt, %at) {{axis = 2, mode = "{0}"}}
           %pv = tensor_scatter(%cv, %v, %at) {{axis = 2, mode = "{0}"}}
           return %qt as "q", %pk as "pk", %pv as "pv" }})",
                     mode);
}

TEST(ScatteredOutput, OfHeads) {
  expect_right(projections("f32", false, "linear"), KernelKind::Contract);
  expect_right(projections("f32", false, "circular"), KernelKind::Contract);
  expect_right(projections("f64", false, "linear"), KernelKind::Contract);
}

TEST(ScatteredOutput, OfHeadsBehindANorm) {
  expect_right(projections("f32", true, "linear"), KernelKind::Chain);
}

// The cache holds heads side by side: heads are merged again on the way into it.
TEST(ScatteredOutput, OfHeadsSideBySide) {
  expect_right(R"(graph g(%x: f32[b, s, 24], %cos: f32[s, 32], %sin: f32[s, 32],
                          %c: f32[b, 40, 128], %at: i64[b]) {
    %w = constant {value = f32[24, 320] random 1}
    %m = matmul(%x, %w)
    %ks = slice(%m) {starts = <0, 0, 192>, sizes = <b, s, 128>, steps = [1, 1, 1]}
    %kr = reshape(%ks) {shape = <b, s, 2, 64>}
    %k = transpose(%kr) {permutation = [0, 2, 1, 3]}
    %t = rope(%k, %cos, %sin)
    %back = transpose(%t) {permutation = [0, 2, 1, 3]}
    %u = reshape(%back) {shape = <b, s, 128>}
    %p = tensor_scatter(%c, %u, %at) {axis = 1, mode = "linear"}
    return %p as "p" })",
               KernelKind::Contract);
}

TEST(ScatteredOutput, OfAnAttention) {
  expect_right(R"(graph g(%q: f32[b, 2, s, 16], %k: f32[b, 2, 9, 16], %c: f32[b, 2, 40, 16],
                          %at: i64[b]) {
    %y = attention(%q, %k, %k) {scale = 0.25}
    %p = tensor_scatter(%c, %y, %at) {axis = 2, mode = "linear"}
    return %p as "p" })",
               KernelKind::Attention);
}

TEST(ScatteredOutput, StoresNothingOutsideTheCache) {
  const GroupRunner runner(R"(graph g(%x: f32[b, s, 8], %c: f32[b, 40, 8], %at: i64[b]) {
    %y = neg(%x)
    %p = tensor_scatter(%c, %y, %at) {axis = 1, mode = "linear"} @"/layers.0/cache"
    return %p as "p" })",
                           KernelKind::Map);
  ASSERT_EQ(runner.error(), "");
  std::vector<Tensor> inputs = runner.random_inputs({{"b", 2}, {"s", 4}});
  const auto run_at = [&](std::int64_t first, std::int64_t second) {
    inputs[2].set_int(0, first);
    inputs[2].set_int(1, second);
    const auto outputs = runner.run(inputs);
    return outputs ? std::string() : outputs.error().message;
  };
  EXPECT_EQ(run_at(36, 0), "");
  for (const std::int64_t start : {std::int64_t{37}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    const std::string error = run_at(0, start);
    EXPECT_THAT(error, ::testing::HasSubstr("/layers.0/cache"));
    EXPECT_THAT(error, ::testing::HasSubstr(fmt::format("batch 1, write index {}", start)));
  }
}

TEST(ScatteredOutput, WhatReadsTheCacheIsNoPartOfTheKernel) {
  const GroupRunner runner(R"(graph g(%x: f32[b, s, 8], %c: f32[b, 40, 8], %at: i64[b]) {
    %y = neg(%x)
    %p = tensor_scatter(%c, %y, %at) {axis = 1, mode = "linear"}
    %z = neg(%p)
    return %z as "z" })",
                           KernelKind::Map);
  EXPECT_NE(runner.error(), "");
}

// Sequences are columns of a product, of which a panel has more.
TEST(ScatteredOutput, OfColumnsThatAreSequences) {
  const GroupRunner runner(R"(graph g(%x: f32[s, 19], %c: f32[3, 40], %at: i64[3]) {
    %w = constant {value = f32[19, 3] random 1}
    %m = matmul(%x, %w)
    %t = transpose(%m) {permutation = [1, 0]}
    %p = tensor_scatter(%c, %t, %at) {axis = 1, mode = "linear"}
    return %p as "p" })",
                           KernelKind::Contract);
  expect_right(runner, {0, 23, 7});
}

}  // namespace
}  // namespace opweld::testing
