#include "fusion/planner.h"

#include "fusion/planning.h"

namespace opweld::testing {
namespace {

// The plan of a graph written as text, as text.
std::string plan_of(const std::string& text, FusionLevel level = FusionLevel::Auto,
                    RuleSet rules = RuleSet::Full) {
  PlanSettings settings;
  settings.level = level;
  settings.rules = rules;
  return PlannedGraph(text, settings).text();
}

constexpr const char* kResidualNorm = R"(graph g(%x: f32[s, 64], %r: f32[s, 64], %g: f32[64]) {
  %h = add(%x, %r)
  %y = rms_norm(%h, %g) {axis = -1, epsilon = 1e-05}
  return %y as "y", %h as "h"
})";

TEST(Planner, ResidualAndNormAreOneKernelWithTwoOutputs) {
  EXPECT_EQ(plan_of(kResidualNorm), "0 row: add + rms_norm\n");
  EXPECT_EQ(plan_of(kResidualNorm, FusionLevel::None), "0 map: add\n1 row: rms_norm\n");
  // The classic rules refuse a value that is also given out.
  EXPECT_EQ(plan_of(kResidualNorm, FusionLevel::Auto, RuleSet::Linear),
            "0 map: add\n1 row: rms_norm\n");
}

TEST(Planner, EpiloguesJoinTheMatmulBeforeThem) {
  EXPECT_EQ(plan_of(R"(graph g(%x: f32[s, 64], %r: f32[s, 32]) {
    %w = constant {value = f32[64, 32] random 1}
    %b = constant {value = f32[32] random 2}
    %m = matmul(%x, %w)
    %a = add(%m, %b)
    %t = tanh(%a)
    %y = add(%t, %r)
    return %y as "y"
  })"),
            "0 contract: matmul + add + tanh + add\n");
}

TEST(Planner, WhatStandsBetweenTwoOperatorsKeepsThemApart) {
  // The sum would join the exp at its one end and the sort's result at the other.
  EXPECT_EQ(plan_of(R"(graph g(%x: f32[s, 8]) {
    %a = exp(%x)
    %v, %i = top_k(%a) {axis = 1, k = <8>, largest = 0, sorted = 1}
    %y = add(%a, %v)
    return %y as "y"
  })"),
            "0 map: exp\n1 extern: top_k\n2 map: add\n");
}

TEST(Planner, AValueReadTwiceByOneOperatorIsComputedOnce) {
  EXPECT_EQ(plan_of(R"(graph g(%x: f32[n]) {
    %a = exp(%x)
    %y = mul(%a, %a)
    return %y as "y"
  })"),
            "0 map: exp + mul\n");
}

TEST(Planner, WhatNobodyReadsIsPlannedAllTheSame) {
  EXPECT_EQ(plan_of(R"(graph g(%x: f32[n]) {
    %a = exp(%x)
    %b = neg(%a)
    %y = abs(%x)
    return %y as "y"
  })"),
            "0 map: exp + abs\n1 map: neg\n");
}

TEST(Planner, AReshapeThatOthersReadIsNotWritten) {
  // It is its operand under another shape for the reduction and the concatenation alike.
  EXPECT_EQ(plan_of(R"(graph g(%x: f32[n, 4, 8]) {
    %r = reshape(%x) {shape = <n, 32>}
    %m = reduce_max(%r) {axes = [0]}
    %c = concat(%r, %r) {axis = 1}
    return %m as "m", %c as "c"
  })"),
            "0 reduce: reduce_max\n1 map: concat\nalias: reshape\n");
}

TEST(Planner, AReshapeJoinsTheMatmulBeforeItTogetherWithItsReader) {
  // By itself it would have to be written beside the matmul's result.
  constexpr const char* kFrame = R"(graph g(%x: f32[2, n, 16]) {{
    %w = constant {{value = f32[16, 32] random 1}}
    %m = matmul(%x, %w)
    %r = reshape(%m) {{shape = <2 * n, 32>}}
    {}
    return {}
  }})";
  EXPECT_EQ(plan_of(fmt::format(kFrame, "%t = transpose(%r) {permutation = [1, 0]}",
                                "%t as \"t\", %m as \"m\"")),
            "0 contract: matmul + reshape + transpose\n");
  EXPECT_EQ(plan_of(fmt::format(kFrame, "", "%r as \"r\", %m as \"m\"")),
            "0 contract: matmul\nalias: reshape\n");
}

TEST(Planner, SlicesOfAMatmulJoinItTogetherWithTheirReader) {
  // Either slice alone would leave the other half to be written.
  for (const char* product : {"mul(%a, %u)", "mul(%u, %a)"}) {
    EXPECT_EQ(plan_of(fmt::format(R"(graph g(%x: f32[n, 16]) {{
      %w = constant {{value = f32[16, 40] random 1}}
      %m = matmul(%x, %w)
      %g = slice(%m) {{starts = <0, 0>, sizes = <n, 20>, steps = [1, 1]}}
      %u = slice(%m) {{starts = <0, 20>, sizes = <n, 20>, steps = [1, 1]}}
      %a = silu(%g)
      %y = {}
      return %y as "y"
    }})",
                                  product)),
              "0 contract: matmul + slice + slice + silu + mul\n");
  }
}

TEST(Planner, ATensorReadInSlicesCountsAsTheSlices) {
  const auto bytes_read = [](std::string_view body) {
    const PlannedGraph planned("graph g(%x: f32[10, 8]) {\n" + std::string(body) +
                               " return %y as \"y\"\n}");
    EXPECT_EQ(planned.plan().kernels.size(), 1U);
    return FusionPlan::bytes_read(planned.plan().kernels.front());
  };
  const auto slice = [](std::string_view name, int start, int size) {
    return fmt::format("%{} = slice(%x) {{starts = <0, {}>, sizes = <10, {}>, steps = [1, 1]}}\n",
                       name, start, size);
  };
  EXPECT_EQ(bytes_read(slice("a", 0, 2) + "%y = exp(%a)\n"), Dim(10 * 2 * 4));
  EXPECT_EQ(bytes_read(slice("a", 0, 2) + slice("b", 3, 2) + "%y = add(%a, %b)\n"),
            Dim(2 * 10 * 2 * 4));
  // Overlapping slices are no more than the whole, and who reads the whole reads it.
  EXPECT_EQ(bytes_read(slice("a", 0, 6) + slice("b", 1, 6) + "%y = add(%a, %b)\n"),
            Dim(10 * 8 * 4));
  EXPECT_EQ(bytes_read(slice("a", 0, 1) + "%y = add(%a, %x)\n"), Dim(10 * 8 * 4));
}

// One layer of a decoder: norm, projections with rotary positions, grouped causal attention, output
// projection, and a gated feed-forward.
constexpr const char* kDecoderLayer =
    R"(graph g(%x: f32[b, s, 64], %cos: f32[s, 8], %sin: f32[s, 8]) {
  %g1 = constant {value = f32[64] random 1}
  %wq = constant {value = f32[64, 64] random 2}
  %wk = constant {value = f32[64, 32] random 3}
  %wv = constant {value = f32[64, 32] random 4}
  %wo = constant {value = f32[64, 64] random 5}
  %g2 = constant {value = f32[64] random 6}
  %wg = constant {value = f32[64, 96] random 7}
  %wu = constant {value = f32[64, 96] random 8}
  %wd = constant {value = f32[96, 64] random 9}
  %n1 = rms_norm(%x, %g1) {axis = -1, epsilon = 1e-05}
  %q = matmul(%n1, %wq)
  %q4 = reshape(%q) {shape = <b, s, 4, 16>}
  %qt = transpose(%q4) {permutation = [0, 2, 1, 3]}
  %qr = rope(%qt, %cos, %sin) {interleaved = 0}
  %k = matmul(%n1, %wk)
  %k4 = reshape(%k) {shape = <b, s, 2, 16>}
  %kt = transpose(%k4) {permutation = [0, 2, 1, 3]}
  %kr = rope(%kt, %cos, %sin) {interleaved = 0}
  %v = matmul(%n1, %wv)
  %v4 = reshape(%v) {shape = <b, s, 2, 16>}
  %vt = transpose(%v4) {permutation = [0, 2, 1, 3]}
  %a = attention(%qr, %kr, %vt) {scale = 0.25, causal = "top_left"}
  %at = transpose(%a) {permutation = [0, 2, 1, 3]}
  %ar = reshape(%at) {shape = <b, s, 64>}
  %o = matmul(%ar, %wo)
  %h = add(%x, %o)
  %n2 = rms_norm(%h, %g2) {axis = -1, epsilon = 1e-05}
  %gate = matmul(%n2, %wg)
  %silu = silu(%gate)
  %up = matmul(%n2, %wu)
  %act = mul(%silu, %up)
  %down = matmul(%act, %wd)
  %y = add(%h, %down)
  return %y as "y"
})";

TEST(Planner, ADecoderLayer) {
  // A norm goes with the first of the matmuls behind it, and is stored for the others.
  EXPECT_EQ(plan_of(kDecoderLayer), R"(0 chain: rms_norm + matmul
1 contract: matmul + reshape + transpose + rope
2 contract: matmul + reshape + transpose + rope
3 attention: transpose + attention + transpose + reshape
4 chain: matmul + add + rms_norm
5 contract: matmul
6 contract: matmul + silu + mul
7 contract: matmul + add
alias: reshape
)");
  // Classic rules leave what has several readers.
  EXPECT_EQ(plan_of(kDecoderLayer, FusionLevel::Auto, RuleSet::Linear),
            R"(0 row: rms_norm
1 contract: matmul + reshape + transpose + rope
2 contract: matmul + reshape + transpose + rope
3 contract: matmul + reshape + transpose
4 attention: attention + transpose + reshape
5 contract: matmul + add
6 row: rms_norm
7 contract: matmul
8 contract: matmul + silu + mul
9 contract: matmul + add
)");
  EXPECT_EQ(plan_of(kDecoderLayer, FusionLevel::None), R"(0 row: rms_norm
1 contract: matmul
2 move: transpose
3 map: rope
4 contract: matmul
5 move: transpose
6 map: rope
7 contract: matmul
8 move: transpose
9 attention: attention
10 move: transpose
11 contract: matmul
12 map: add
13 row: rms_norm
14 contract: matmul
15 map: silu
16 contract: matmul
17 map: mul
18 contract: matmul
19 map: add
alias: reshape
alias: reshape
alias: reshape
alias: reshape
)");
}

}  // namespace
}  // namespace opweld::testing
