// Each rule with the smallest graph that it refuses, and a near miss that it lets through.
#include <gmock/gmock.h>

#include "fusion/planning.h"

namespace opweld::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

PlanSettings with_rules(RuleSet rules) {
  PlanSettings settings;
  settings.rules = rules;
  return settings;
}

// The verdict on the edge from %a to %b.
std::string edge_of(std::string_view text, const PlanSettings& settings = {}) {
  return PlannedGraph(text, settings).edge("a", "b");
}

TEST(Legality, OpaqueOperatorsStandAlone) {
  for (const RuleSet rules : kRuleSets) {
    EXPECT_EQ(edge_of(R"(graph g(%x: f32[n, 8]) {
      %a = exp(%x)
      %b, %i = top_k(%a) {axis = 1, k = <4>, largest = 0, sorted = 1}
      return %b as "b"
    })",
                      with_rules(rules)),
              "F-OPAQUE: top_k_1 is run by a call");
    EXPECT_EQ(edge_of(R"(graph g(%x: f32[n, 8]) {
      %a, %i = top_k(%x) {axis = 1, k = <4>, largest = 0, sorted = 1}
      %b = exp(%a)
      return %b as "b"
    })",
                      with_rules(rules)),
              "F-OPAQUE: top_k_0 is run by a call");
    EXPECT_EQ(edge_of(R"(graph g(%x: f32[n, 8]) {
      %a = exp(%x)
      %b = reduce_max(%a) {axes = [1]}
      return %b as "b"
    })",
                      with_rules(rules)),
              "fused");
  }
}

// %a, %b and an operator on no stream between them, on these streams.
std::string on_streams(const std::string& first, const std::string& second) {
  return fmt::format(R"(graph g(%x: f32[n, 8]) {{
      %a = exp(%x) @"a"{}
      %b = neg(%a) @"b"{}
      return %b as "b"
    }})",
                     first.empty() ? "" : " stream \"" + first + "\"",
                     second.empty() ? "" : " stream \"" + second + "\"");
}

TEST(Legality, StreamsNeverShareAKernel) {
  for (const RuleSet rules : kRuleSets) {
    EXPECT_EQ(edge_of(on_streams("copy", "compute"), with_rules(rules)),
              "F-STREAM: stream 'copy' meets stream 'compute'");
    EXPECT_EQ(edge_of(on_streams("copy", "copy"), with_rules(rules)), "fused");
    // One on no stream goes with either,
    EXPECT_EQ(edge_of(on_streams("copy", ""), with_rules(rules)), "fused");
    EXPECT_EQ(edge_of(on_streams("", "copy"), with_rules(rules)), "fused");
    // but does not bring two together.
    const PlannedGraph between(R"(graph g(%x: f32[n, 8]) {
      %a = exp(%x) @"a" stream "copy"
      %m = abs(%a)
      %b = neg(%m) @"b" stream "compute"
      return %b as "b"
    })",
                               with_rules(rules));
    EXPECT_EQ(between.text(), "0 map: exp + abs\n1 map: neg\n");
    EXPECT_EQ(between.edge("m", "b"), "F-STREAM: stream 'copy' meets stream 'compute'");
  }
}

// Siblings of one kernel, of which one is on another stream than what reads both.
TEST(Legality, AStreamIsThatOfTheWholeKernel) {
  const PlannedGraph planned(R"(graph g(%x: f32[n, 8]) {
    %a = exp(%x) @"a" stream "copy"
    %c = abs(%x) @"c" stream "compute"
    %b = add(%a, %c) @"b"
    return %b as "b"
  })");
  EXPECT_EQ(planned.edge("a", "b"), "fused");
  EXPECT_EQ(planned.edge("c", "b"), "F-STREAM: stream 'compute' meets stream 'copy'");
}

std::string cache_step(const std::string& in_place, const std::string& reader) {
  return R"(graph g(%x: f32[1, 2, n, 8], %past: f32[1, 2, 64, 8], %at: i64[1]) {
      %r = exp(%x)
      %a = tensor_scatter(%past, %r, %at) {axis = 2, mode = "linear")" +
         in_place + R"(}
      %b = )" +
         reader + R"(
      return %a as "a", %b as "b"
    })";
}

TEST(Legality, WhatIsWrittenInPlaceIsReadByAnotherKernel) {
  for (const RuleSet rules : kRuleSets) {
    for (const char* reader :
         {"neg(%a)", "reduce_sum(%a) {axes = [3]}", "attention(%x, %a, %a) {scale = 0.5}"}) {
      const PlannedGraph written(cache_step(", in_place = 1", reader), with_rules(rules));
      EXPECT_THAT(written.edge("a", "b"),
                  StartsWith("F-SIDE-EFFECT: tensor_scatter_1 writes into a cache in place, and "))
          << reader;
      // What makes the rows is welded to their writing.
      EXPECT_EQ(written.edge("r", "a"), "fused") << reader;
      // A copy is a call, and no effect on anybody.
      EXPECT_THAT(edge_of(cache_step("", reader), with_rules(rules)), StartsWith("F-OPAQUE: "));
    }
  }
}

TEST(Legality, TypesWithoutASchedule) {
  const auto matmul = [](const std::string& dtype) {
    return "graph g(%x: " + dtype + "[n, 8], %w: " + dtype + R"([8, 8]) {
      %a = matmul(%x, %w)
      %b = neg(%a)
      return %b as "b"
    })";
  };
  const auto attention = [](const std::string& dtype) {
    return "graph g(%q: " + dtype + R"([1, 2, 40, 8]) {
      %a = attention(%q, %q, %q) {scale = 0.5}
      %b = neg(%a)
      return %b as "b"
    })";
  };
  for (const RuleSet rules : kRuleSets) {
    EXPECT_EQ(edge_of(matmul("i64"), with_rules(rules)),
              "F-DTYPE: matmul_0 of i64 is run by a call");
    EXPECT_EQ(edge_of(attention("f64"), with_rules(rules)),
              "F-DTYPE: attention_0 of f64 is run by a call");
    for (const char* served : {"f32", "f64", "bf16"}) {
      EXPECT_EQ(edge_of(matmul(served), with_rules(rules)), "fused");
    }
    EXPECT_EQ(edge_of(attention("f16"), with_rules(rules)), "fused");
  }
}

TEST(Legality, ChainsWantConstantWeights) {
  for (const RuleSet rules : kRuleSets) {
    EXPECT_EQ(edge_of(R"(graph g(%x: f32[n, 8], %v: f32[8, 16], %w: f32[16, 8]) {
      %a = matmul(%x, %v)
      %b = matmul(%a, %w)
      return %b as "b"
    })",
                      with_rules(rules)),
              "F-DOMAIN: weights are no constant of their own");
    EXPECT_EQ(edge_of(R"(graph g(%x: f32[n, 8], %v: f32[8, 16], %w: f32[n, 16]) {
      %a = matmul(%x, %v)
      %b = mul(%a, %w)
      return %b as "b"
    })",
                      with_rules(rules)),
              "fused");
  }
}

// Two matmuls, the second of which reads what the first made, with that many rows.
std::string two_matmuls(const std::string& rows) {
  return "graph g(%x: f32[" + rows + R"(, 64]) {
      %v = constant {value = f32[64, 256] random 1}
      %w = constant {value = f32[256, 64] random 2}
      %a = matmul(%x, %v)
      %b = matmul(%a, %w)
      return %b as "b"
    })";
}

// Rows of a task that a chain of the two asks for, of its refusal.
int rows_that_pay(const PlanSettings& settings) {
  const std::string verdict = edge_of(two_matmuls("n"), settings);
  EXPECT_THAT(verdict, ::testing::MatchesRegex(
                           "F-COST: each task would go through all weights, [0-9]+ us, and with as "
                           "few as 1 rows multiply for [0-9]+ us; [0-9]+ rows pay; where there are "
                           "as many, another plan is run"));
  const std::size_t found = verdict.find(" us; ");
  return found == std::string::npos ? 0 : std::stoi(verdict.substr(found + 5));
}

PlanSettings on_two_cores(RuleSet rules) {
  PlanSettings settings = with_rules(rules);
  settings.target.cores = 2;
  settings.target.peak_flops = 100e9;
  settings.target.bandwidth = 20e9;
  settings.target.cache_bandwidth = 25e9;
  settings.target.l2_bytes = 1 << 20;
  return settings;
}

TEST(Legality, AChainWantsRowsThatHideItsWeights) {
  for (const RuleSet rules : kRuleSets) {
    const PlanSettings settings = on_two_cores(rules);
    // 128 KiB at 25 GB/s are 5.2 us; 32 Ki multiply-adds a row at what is reached of 100 GFlop/s,
    // 0.8 us and some for what else a row takes. Four times as long is asked for.
    const int rows = rows_that_pay(settings);
    EXPECT_GE(rows, 18);
    EXPECT_LE(rows, 26);
    EXPECT_EQ(edge_of(two_matmuls(fmt::to_string(2 * rows)), settings), "fused");
    EXPECT_THAT(edge_of(two_matmuls(fmt::to_string(rows)), settings), StartsWith("F-COST: "));
    EXPECT_THAT(edge_of(two_matmuls(fmt::to_string(rows)), settings), Not(HasSubstr("another")));
  }
}

TEST(Legality, WhatAChainAsksForFollowsFromTheTarget) {
  const PlanSettings settings = on_two_cores(RuleSet::Full);
  const int rows = rows_that_pay(settings);
  PlanSettings faster = settings;
  faster.target.peak_flops *= 4;
  EXPECT_NEAR(rows_that_pay(faster), 4 * rows, 4);
  PlanSettings farther = settings;
  farther.target.cache_bandwidth /= 2;
  EXPECT_NEAR(rows_that_pay(farther), 2 * rows, 2);
  // Weights that no cache holds come from memory, which cores share.
  PlanSettings small = settings;
  small.target.l2_bytes = 32 << 10;
  EXPECT_NEAR(rows_that_pay(small), 2.5 * rows, 3);
}

TEST(Legality, ANormJoinsTheMatmulBehindItForAnyNumberOfRows) {
  for (const RuleSet rules : kRuleSets) {
    EXPECT_EQ(edge_of(R"(graph g(%x: f32[n, 64], %s: f32[64]) {
      %w = constant {value = f32[64, 2048] random 1}
      %a = rms_norm(%x, %s) {axis = -1, epsilon = 1e-05}
      %b = matmul(%a, %w)
      return %b as "b"
    })",
                      with_rules(rules)),
              "fused");
  }
}

TEST(Legality, ReductionsOfDifferentAxesStandApart) {
  for (const RuleSet rules : kRuleSets) {
    EXPECT_THAT(edge_of(R"(graph g(%x: f32[n, 8, 16]) {
      %a = reduce_sum(%x) {axes = [2], keepdims = 0}
      %b = reduce_max(%a) {axes = [1]}
      return %b as "b"
    })",
                        with_rules(rules)),
                StartsWith("F-DOMAIN: "));
    // The second reduction runs over the same rows as the first.
    EXPECT_EQ(PlannedGraph(R"(graph g(%x: f32[n, 16]) {
      %a = reduce_max(%x) {axes = [1]}
      %b = sub(%x, %a)
      %c = reduce_sum(%b) {axes = [1]}
      return %c as "c"
    })",
                           with_rules(rules))
                  .text(),
              "0 row: reduce_max + sub + reduce_sum\n");
  }
}

TEST(Legality, OneMapHasOutputsOfOneShape) {
  constexpr const char* kGivenOut = R"(graph g(%x: f32[n, 16]) {
    %a = exp(%x)
    %b = slice(%a) {starts = <0, 4>, sizes = <n, 8>, steps = [1, 1]}
    return %b as "b", %a as "a"
  })";
  constexpr const char* kInside = R"(graph g(%x: f32[n, 16]) {
    %a = exp(%x)
    %b = slice(%a) {starts = <0, 4>, sizes = <n, 8>, steps = [1, 1]}
    return %b as "b"
  })";
  EXPECT_EQ(edge_of(kGivenOut), "F-DOMAIN: its outputs have different shapes");
  EXPECT_THAT(edge_of(kGivenOut, with_rules(RuleSet::Linear)), StartsWith("F-GRAPH-OUTPUT: "));
  for (const RuleSet rules : kRuleSets) EXPECT_EQ(edge_of(kInside, with_rules(rules)), "fused");
}

TEST(Legality, ClassicRulesRefuseForks) {
  constexpr const char* kFork = R"(graph g(%x: f32[n]) {
    %a = exp(%x)
    %b = neg(%a)
    %c = abs(%a)
    return %b as "b", %c as "c"
  })";
  const PlannedGraph linear(kFork, with_rules(RuleSet::Linear));
  EXPECT_EQ(linear.edge("a", "b"), "F-FORK: 2 readers");
  EXPECT_EQ(linear.edge("a", "c"), "F-FORK: 2 readers");
  EXPECT_EQ(linear.text(), "0 map: exp\n1 map: neg\n2 map: abs\n");
  const PlannedGraph full(kFork);
  EXPECT_EQ(full.edge("a", "b"), "fused");
  EXPECT_EQ(full.edge("a", "c"), "fused");
  EXPECT_EQ(full.text(), "0 map: exp + neg + abs\n");
  // One reader that reads it twice is one reader.
  EXPECT_EQ(edge_of(R"(graph g(%x: f32[n]) {
    %a = exp(%x)
    %b = mul(%a, %a)
    return %b as "b"
  })",
                    with_rules(RuleSet::Linear)),
            "fused");
}

TEST(Legality, ClassicRulesRefuseValuesThatAreGivenOut) {
  constexpr const char* kGivenOut = R"(graph g(%x: f32[n]) {
    %a = exp(%x)
    %b = neg(%a)
    return %b as "b", %a as "a"
  })";
  EXPECT_EQ(edge_of(kGivenOut, with_rules(RuleSet::Linear)),
            "F-GRAPH-OUTPUT: the value is an output of the model");
  EXPECT_EQ(edge_of(kGivenOut), "fused");
  EXPECT_EQ(edge_of(R"(graph g(%x: f32[n]) {
    %a = exp(%x)
    %b = neg(%a)
    return %b as "b"
  })",
                    with_rules(RuleSet::Linear)),
            "fused");
}

// Shape rules give plain results, so a format is put on the value between the two by hand.
std::string edge_between(Format first, Format second, RuleSet rules) {
  Graph graph = parse_graph(R"(graph g(%x: f32[1, 3, 8, 8]) {
    %a = exp(%x)
    %b = neg(%a)
    return %b as "b"
  })")
                    .value();
  const std::vector<Node*> nodes = graph.nodes_in_order();
  for (const auto& [node, format] : {std::pair{nodes[0], first}, std::pair{nodes[1], second}}) {
    TensorType type = node->result()->type();
    type.format = format;
    node->result()->set_type(type);
  }
  return PlannedGraph(std::move(graph), with_rules(rules)).edge("a", "b");
}

// What stands behind a conversion has no space of its own to disagree with: it is the format.
TEST(Legality, ConversionsThatNoScheduleHolds) {
  const auto edge_behind = [](const std::string& shape, const std::string& result,
                              const std::string& permutation) {
    return PlannedGraph("graph g(%x: f32[" + shape + ", 8], %r: f32[" + result +
                        "]) {\n  %w = constant {value = f32[8, 16] random 1}\n"
                        "  %m = matmul(%x, %w)\n  %t = transpose(%m) {permutation = [" +
                        permutation + "]} @\"turn\"\n  %y = add(%t, %r)\n  return %y as \"y\"\n}")
        .edge("t", "y");
  };
  EXPECT_THAT(edge_behind("n, h, w", "n, 16, h, w", "0, 3, 1, 2"),
              ::testing::StartsWith("F-FORMAT: nhwc meets nchw at turn; "));
  // Heads that go in front of their rows are no images.
  EXPECT_THAT(edge_behind("n, h, w", "n, w, h, 16", "0, 2, 1, 3"),
              ::testing::StartsWith("F-DOMAIN: "));
}

TEST(Legality, FormatsAgree) {
  for (const RuleSet rules : kRuleSets) {
    EXPECT_EQ(edge_between(Format::NHWC, Format::NCHW, rules), "F-FORMAT: nhwc meets nchw");
    EXPECT_EQ(edge_between(Format::NHWC, Format::NHWC, rules), "fused");
    EXPECT_EQ(edge_between(Format::NHWC, Format::Plain, rules), "fused");
  }
}

TEST(Legality, NoKernelWaitsForItself) {
  // Classic rules never come so far: the first value has two readers.
  constexpr const char* kAround = R"(graph g(%x: f32[n, 8]) {
    %a = exp(%x)
    %v, %i = top_k(%a) {axis = 1, k = <8>, largest = 0, sorted = 1}
    %b = add(%a, %v)
    return %b as "b"
  })";
  EXPECT_EQ(edge_of(kAround), "F-CYCLE: another kernel stands between the two");
  EXPECT_EQ(edge_of(kAround, with_rules(RuleSet::Linear)), "F-FORK: 2 readers");
  // The same detour through operators that join.
  const PlannedGraph joined(R"(graph g(%x: f32[n, 8]) {
    %a = exp(%x)
    %v = neg(%a)
    %b = add(%a, %v)
    return %b as "b"
  })");
  EXPECT_EQ(joined.text(), "0 map: exp + neg + add\n");
  EXPECT_EQ(joined.edge("a", "b"), "fused");
}

constexpr const char* kThreeInARow = R"(graph g(%x: f32[n], %y: f32[n], %z: f32[n]) {
  %a = add(%x, %y)
  %b = mul(%a, %z)
  return %b as "b"
})";

TEST(Legality, KernelsHaveAtMostSoManyNodes) {
  for (const RuleSet rules : kRuleSets) {
    PlanSettings settings = with_rules(rules);
    settings.max_nodes = 1;
    EXPECT_EQ(edge_of(kThreeInARow, settings), "F-LIMIT: 2 nodes of at most 1");
    settings.max_nodes = 2;
    EXPECT_EQ(edge_of(kThreeInARow, settings), "fused");
  }
}

TEST(Legality, KernelsHaveAtMostSoManyTensors) {
  for (const RuleSet rules : kRuleSets) {
    PlanSettings settings = with_rules(rules);
    settings.max_tensors = 3;
    EXPECT_EQ(edge_of(kThreeInARow, settings), "F-LIMIT: 4 tensors of at most 3");
    settings.max_tensors = 4;
    EXPECT_EQ(edge_of(kThreeInARow, settings), "fused");
  }
}

TEST(Legality, DearWorkIsNotRepeatedForEveryReader) {
  // exp of a row of 64, wanted at each of so many places.
  const auto text = [](int repeats) {
    return fmt::format(R"(graph g(%x: f32[64]) {{
      %a = exp(%x)
      %b = expand(%a) {{shape = <{}, 64>}}
      return %b as "b"
    }})",
                       repeats);
  };
  for (const RuleSet rules : kRuleSets) {
    EXPECT_EQ(edge_of(text(100000), with_rules(rules)),
              "F-COST: saves 512 bytes, computes 127998720 more operations");
    EXPECT_EQ(edge_of(text(10), with_rules(rules)), "fused");
  }
}

TEST(Legality, LevelsSwitchFusionOff) {
  PlanSettings settings;
  settings.level = FusionLevel::None;
  EXPECT_EQ(edge_of(kThreeInARow, settings), "F-LEVEL: ");
  settings.level = FusionLevel::Ops;
  EXPECT_EQ(edge_of(kThreeInARow, settings), "F-LEVEL: neither is an operator of the library");
  EXPECT_EQ(edge_of(kThreeInARow), "fused");
}

// The kernels of a layer's second half: a norm, gate and up in one matmul, down, the residual.
TEST(Legality, TheLibraryHoldsOneProductWithWhatIsAroundIt) {
  const std::string text = R"(graph g(%x: f32[400, 64], %s: f32[64]) {
    %v = constant {value = f32[64, 512] random 1}
    %w = constant {value = f32[256, 64] random 2}
    %n = rms_norm(%x, %s) {axis = -1, epsilon = 1e-05}
    %p = matmul(%n, %v)
    %g = slice(%p) {starts = <0, 0>, sizes = <400, 256>, steps = [1, 1]}
    %u = slice(%p) {starts = <0, 256>, sizes = <400, 256>, steps = [1, 1]}
    %a = silu(%g)
    %m = mul(%a, %u)
    %d = matmul(%m, %w)
    %r = add(%d, %x)
    %t = exp(%s)
    %e = neg(%t)
    return %r as "r", %e as "e"
  })";
  PlanSettings settings;
  settings.level = FusionLevel::Ops;
  const PlannedGraph library(text, settings);
  EXPECT_EQ(to_text(library.plan()), R"(0 chain: rms_norm + matmul + slice + slice + silu + mul
1 contract: matmul + add
2 map: exp
3 map: neg
)");
  EXPECT_EQ(PlannedGraph(text).plan().kernels.size(), 2U) << "all of it, and exp with neg";
}

TEST(Legality, TheLibraryHoldsOneNormOfAKind) {
  const std::string text = R"(graph g(%x: f32[n, 64], %y: f32[n, 64], %s: f32[64]) {
    %a = add(%x, %y)
    %b = rms_norm(%a, %s) {axis = -1, epsilon = 1e-05}
    %c = rms_norm(%b, %s) {axis = -1, epsilon = 1e-05}
    return %c as "c"
  })";
  PlanSettings settings;
  settings.level = FusionLevel::Ops;
  EXPECT_EQ(to_text(PlannedGraph(text, settings).plan()),
            "0 row: add + rms_norm\n1 row: rms_norm\n");
  EXPECT_EQ(to_text(PlannedGraph(text).plan()), "0 row: add + rms_norm + rms_norm\n");
}

TEST(Legality, SchedulesAreLeftOutOnRequest) {
  PlanSettings settings;
  settings.without = {KernelKind::Map};
  EXPECT_EQ(edge_of(kThreeInARow, settings), "F-WITHOUT: it would be a kernel of map");
  settings.without = {KernelKind::Row, KernelKind::Chain};
  EXPECT_EQ(edge_of(kThreeInARow, settings), "fused");
}

// The norm and the matmul are a chain; what stands around each of them stays with it.
TEST(Legality, WithoutChainsTheirStagesAreKernels) {
  constexpr const char* kNormed = R"(graph g(%x: f32[n, 64], %r: f32[n, 64]) {
    %w = constant {value = f32[64, 64] random 1}
    %h = add(%x, %r)
    %n = rms_norm(%h) {axis = -1, epsilon = 1e-06}
    %m = matmul(%n, %w)
    %y = silu(%m)
    return %y as "y"
  })";
  EXPECT_EQ(PlannedGraph(kNormed).text(), "0 chain: add + rms_norm + matmul + silu\n");
  PlanSettings settings;
  settings.without = {KernelKind::Chain};
  const PlannedGraph apart(kNormed, settings);
  EXPECT_EQ(apart.text(), "0 row: add + rms_norm\n1 contract: matmul + silu\n");
  EXPECT_EQ(apart.edge("n", "m"), "F-WITHOUT: it would be a kernel of chain");
}

// ---- pressure ----

// Of each row of 1000 f32 the softmax keeps the exponentials on chip; the tanh would be kept as
// well, since it is read twice.
constexpr const char* kTwoRows = R"(graph g(%x: f32[n, 1000]) {
  %a = tanh(%x)
  %b = softmax(%a) {axis = 1}
  return %b as "b"
})";
// A negation is computed again instead, so that it adds nothing to what the softmax needs.
constexpr const char* kOneRow = R"(graph g(%x: f32[n, 1000]) {
  %a = neg(%x)
  %b = softmax(%a) {axis = 1}
  return %b as "b"
})";

PlanSettings with_budget(RuleSet rules, std::int64_t bytes) {
  PlanSettings settings = with_rules(rules);
  settings.target.on_chip_bytes = bytes;
  return settings;
}

TEST(Legality, WhatIsKeptFitsOnTheChip) {
  for (const RuleSet rules : kRuleSets) {
    EXPECT_EQ(edge_of(kTwoRows, with_budget(rules, 7 << 10)),
              "F-PRESSURE: needs 7.8 KiB of 7.0 KiB on chip");
    EXPECT_EQ(edge_of(kTwoRows, with_budget(rules, 8 << 10)), "fused");
    EXPECT_EQ(edge_of(kOneRow, with_budget(rules, 4 << 10)), "fused");
  }
}

TEST(Legality, WhatIsBeyondTheChipAnywayMayTakeMoreThatNeedsNothing) {
  EXPECT_EQ(edge_of(kOneRow, with_budget(RuleSet::Full, 1 << 10)), "fused");
  EXPECT_EQ(edge_of(kOneRow, with_budget(RuleSet::Linear, 1 << 10)),
            "F-PRESSURE: needs 3.9 KiB of 1.0 KiB on chip");
  EXPECT_EQ(edge_of(kTwoRows, with_budget(RuleSet::Full, 1 << 10)),
            "F-PRESSURE: needs 7.8 KiB of 1.0 KiB on chip");
}

TEST(Legality, LongRowsOfUnknownLengthCountWithTheUsualSize) {
  constexpr const char* kSymbolic = R"(graph g(%x: f32[n, s]) where s in [4096, 8192] {
    %a = tanh(%x)
    %b = softmax(%a) {axis = 1}
    return %b as "b"
  })";
  EXPECT_EQ(edge_of(kSymbolic, with_budget(RuleSet::Full, 31 << 10)),
            "F-PRESSURE: needs 32.0 KiB of 31.0 KiB on chip");
  EXPECT_EQ(edge_of(kSymbolic, with_budget(RuleSet::Full, 32 << 10)), "fused");
}

}  // namespace
}  // namespace opweld::testing
