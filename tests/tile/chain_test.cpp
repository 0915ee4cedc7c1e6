// Norms and matmuls in one kernel, against the reference in f64.
#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

// y = f(norm(x) w), with f a pointwise epilogue.
std::string norm_then_matmul(const std::string& dtype, std::int64_t depth, std::int64_t columns,
                             bool layer_norm) {
  const std::string norm = layer_norm
                               ? "%n = layer_norm(%x, %gamma, %beta) {axis = -1, epsilon = 1e-05}\n"
                               : "%n = rms_norm(%x, %gamma) {axis = -1, epsilon = 1e-06}\n";
  return fmt::format(R"(graph g(%x: {0}[b, s, {1}]) {{
    %gamma = constant {{value = {0}[{1}] random 2}}
    %beta = constant {{value = {0}[{1}] random 3}}
    %w = constant {{value = {0}[{1}, {2}] random 4}}
    %c = constant {{value = {0}[{2}] random 5}}
    {3}
    %m = matmul(%n, %w)
    %y = add(%m, %c)
    return %y as "y"
  }})",
                     dtype, depth, columns, norm);
}

// The feed-forward of a decoder: norm, gate and up in one product, down, residual.
std::string feed_forward(const std::string& dtype, std::int64_t width, std::int64_t inner) {
  return fmt::format(R"(graph g(%x: {0}[b, s, {1}]) {{
    %gamma = constant {{value = {0}[{1}] random 2}}
    %wgu = constant {{value = {0}[{1}, {3}] random 4}}
    %wd = constant {{value = {0}[{2}, {1}] random 5}}
    %n = rms_norm(%x, %gamma) {{axis = -1, epsilon = 1e-06}}
    %gu = matmul(%n, %wgu)
    %g = slice(%gu) {{starts = <0, 0, 0>, sizes = <b, s, {2}>, steps = [1, 1, 1]}}
    %u = slice(%gu) {{starts = <0, 0, {2}>, sizes = <b, s, {2}>, steps = [1, 1, 1]}}
    %a = silu(%g)
    %h = mul(%a, %u)
    %d = matmul(%h, %wd)
    %y = add(%d, %x)
    return %y as "y"
  }})",
                     dtype, width, inner, 2 * inner);
}

// The feed-forward of an encoder: up, GELU, down, residual and the norm behind it.
std::string encoder_feed_forward(const std::string& dtype, std::int64_t width, std::int64_t inner) {
  return fmt::format(R"(graph g(%x: {0}[s, {1}]) {{
    %wu = constant {{value = {0}[{1}, {2}] random 2}}
    %bu = constant {{value = {0}[{2}] random 3}}
    %wd = constant {{value = {0}[{2}, {1}] random 4}}
    %bd = constant {{value = {0}[{1}] random 5}}
    %gamma = constant {{value = {0}[{1}] random 6}}
    %beta = constant {{value = {0}[{1}] random 7}}
    %u = matmul(%x, %wu)
    %ub = add(%u, %bu)
    %h = gelu(%ub)
    %d = matmul(%h, %wd)
    %db = add(%d, %bd)
    %r = add(%db, %x)
    %y = layer_norm(%r, %gamma, %beta) {{axis = -1, epsilon = 1e-05}}
    return %r as "r", %y as "y"
  }})",
                     dtype, width, inner);
}

TEST(ChainSchedule, NormsIntoTheMatmulBehindThem) {
  for (const bool layer_norm : {false, true}) {
    for (const std::int64_t depth : {1, 17, 64, 100}) {
      for (const std::int64_t columns : {1, 16, 33, 200}) {
        const GroupRunner runner(norm_then_matmul("f32", depth, columns, layer_norm),
                                 KernelKind::Chain);
        for (const std::int64_t s : {0, 1, 5, 6, 131}) runner.check({{"b", 2}, {"s", s}});
      }
    }
  }
}

TEST(ChainSchedule, ANormOfALongRowGoesThroughBlocksOfDepth) {
  const GroupRunner runner(norm_then_matmul("f32", 2000, 70, false), KernelKind::Chain);
  for (const std::int64_t s : {1, 7, 90}) runner.check({{"b", 1}, {"s", s}});
}

TEST(ChainSchedule, RowsThatDoNotFitOnTheChipAreRefused) {
  const std::string text = R"(graph g(%x: f32[s, 3000000]) {
    %w = constant {value = f32[3000000, 1] random 4}
    %n = softmax(%x) {axis = -1}
    %y = matmul(%n, %w)
    return %y as "y"
  })";
  EXPECT_EQ(GroupRunner(text, KernelKind::Chain).error(),
            "what its stages keep of a row, 12000000 bytes, is too much for a block of rows");
}

TEST(ChainSchedule, ADecodersFeedForward) {
  for (const auto& [width, inner] : {std::pair{1, 1}, {24, 16}, {33, 50}, {64, 80}}) {
    const GroupRunner runner(feed_forward("f32", width, inner), KernelKind::Chain);
    for (const std::int64_t s : {0, 1, 3, 16, 250}) runner.check({{"b", 2}, {"s", s}});
  }
}

TEST(ChainSchedule, AnEncodersFeedForwardWithItsNorm) {
  for (const auto& [width, inner] : {std::pair{1, 2}, {16, 24}, {50, 33}, {192, 64}}) {
    const GroupRunner runner(encoder_feed_forward("f32", width, inner), KernelKind::Chain);
    for (const std::int64_t s : {0, 1, 3, 16, 250}) runner.check({{"s", s}});
  }
}

TEST(ChainSchedule, EveryTargetAndType) {
  for (const std::string target : {"host-generic", "host-avx2", "host-avx512", "host"}) {
    if (!find_target(target)) continue;
    for (const std::string dtype : {"f64", "f16", "bf16"}) {
      // With sums of a few products, or roundings of halves add up.
      const GroupRunner norm(norm_then_matmul(dtype, 12, 40, false), KernelKind::Chain, target);
      norm.check({{"b", 1}, {"s", 37}});
    }
    const GroupRunner mlp(feed_forward("f32", 40, 72), KernelKind::Chain, target);
    mlp.check({{"b", 3}, {"s", 37}});
  }
}

}  // namespace
}  // namespace opweld::testing
