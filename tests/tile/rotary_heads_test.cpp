// Heads of every size, turned in every order of pairs, out of the epilogue of a matmul: against the
// reference in f64, each two options together.
#include "tile/rotary_heads.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "covering_array.h"
#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Positions = RotaryHeads::Positions;
using Caches = RotaryHeads::Caches;

enum Factor : std::uint8_t {
  kHead,
  kOrder,
  kTarget,
  kDType,
  kRows,
  kDepth,
  kHeads,
  kNorm,
  kBias,
  kWhole,
  kPositions,
  kCaches,
  kStrict,
  kFactors
};
using Choice = CoveringArray<kFactors>::Choice;

// Multiples of panels and of vectors, and what ends within either.
constexpr std::array kHeadSizes = {64, 16, 32, 48, 80, 96, 112, 128, 24, 20, 36, 10, 6, 2};
enum Order : std::uint8_t {
  kHalves,
  kNeighbours,
  kSomeHalves,
  kSomeNeighbours,
  kUnturned,
  kOrders
};
constexpr std::array kTargets = {"host-avx512", "host-avx2", "host-amx", "host-generic"};
constexpr std::array kTypes = {"f32", "f16", "bf16", "f64"};
constexpr std::array kRowCounts = {"s", "1", "7"};
// The last is cut into blocks.
constexpr std::array kDepths = {4, 33, 1700};
constexpr std::array<std::array<int, 2>, 3> kHeadCounts = {{{3, 2}, {1, 1}, {4, 1}}};

constexpr Choice kLevels = {static_cast<int>(kHeadSizes.size()),
                            kOrders,
                            static_cast<int>(kTargets.size()),
                            static_cast<int>(kTypes.size()),
                            static_cast<int>(kRowCounts.size()),
                            static_cast<int>(kDepths.size()),
                            static_cast<int>(kHeadCounts.size()),
                            2,
                            2,
                            2,
                            3,
                            3,
                            2};

bool is_half(int dtype) {
  return dtype == 1 || dtype == 2;
}

bool excluded(Level first, Level second) {
  const auto both = [&](int factor, int other) {
    return first.factor == factor && second.factor == other;
  };
  // A head of two has no pair to spare.
  if (both(kHead, kOrder)) {
    const bool some = second.level == kSomeHalves || second.level == kSomeNeighbours;
    return some && kHeadSizes[static_cast<std::size_t>(first.level)] == 2;
  }
  // Roundings of halves add up: in long sums, in what a chain keeps of a norm, and at every step
  // of strict numerics, which tests/compile compares bit by bit.
  if (both(kDType, kDepth)) return is_half(first.level) && second.level != 0;
  if (both(kDType, kNorm) || both(kDType, kStrict))
    return is_half(first.level) && second.level != 0;
  return false;
}

RotaryHeads options_of(const Choice& of) {
  const auto level = [&](Factor factor) {
    return static_cast<std::size_t>(of[static_cast<std::size_t>(factor)]);
  };
  RotaryHeads p;
  p.head = kHeadSizes[level(kHead)];
  const auto order = static_cast<Order>(level(kOrder));
  const bool some = order == kSomeHalves || order == kSomeNeighbours;
  // Of some, a quarter of the head, and an even number of elements is left.
  p.pairs = order == kUnturned ? 0 : some ? std::max(1, p.head / 8) : p.head / 2;
  p.interleaved = order == kNeighbours || order == kSomeNeighbours;
  p.dtype = kTypes[level(kDType)];
  p.rows = kRowCounts[level(kRows)];
  p.depth = kDepths[level(kDepth)];
  p.heads = kHeadCounts[level(kHeads)][0];
  p.key_heads = kHeadCounts[level(kHeads)][1];
  p.norm = level(kNorm) != 0;
  p.bias = level(kBias) != 0;
  p.whole = level(kWhole) != 0;
  p.positions = static_cast<Positions>(level(kPositions));
  p.caches = static_cast<Caches>(level(kCaches));
  return p;
}

KernelKind kind_of(const RotaryHeads& p) {
  return p.norm ? KernelKind::Chain : KernelKind::Contract;
}

// Inputs whose write indices keep the update within the cache.
std::vector<Tensor> inputs_of(const GroupRunner& group, const Bindings& sizes) {
  std::vector<Tensor> inputs = group.random_inputs(sizes);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (group.graph().inputs()[i]->name() != "at") continue;
    for (std::int64_t j = 0; j < inputs[i].num_elements(); ++j) inputs[i].set_int(j, 7 - 4 * j);
  }
  return inputs;
}

void expect_right(const RotaryHeads& p, const std::string& target = "host", bool strict = false) {
  if (!find_target(target)) return;
  const std::string text = rotary_heads(p);
  SCOPED_TRACE(target + (strict ? " strict " : " ") + text);
  const GroupRunner group(text, kind_of(p), target, strict);
  ASSERT_EQ(group.error(), "");
  for (const std::int64_t s : {0, 1, 6, 13, 70}) {
    group.check(inputs_of(group, {{"b", 2}, {"s", s}}));
    if (p.rows != "s") break;
  }
}

TEST(RotaryHeads, EachTwoOptions) {
  for (const Choice& of : CoveringArray<kFactors>(kLevels, excluded).choices()) {
    expect_right(options_of(of), kTargets[static_cast<std::size_t>(of[kTarget])], of[kStrict] != 0);
  }
}

// Every size with every order, on each width of vectors.
TEST(RotaryHeads, EverySizeInEveryOrder) {
  for (const std::string target : {"host-avx512", "host-avx2"}) {
    for (int head = 0; head < kLevels[kHead]; ++head) {
      for (int order = 0; order < kOrders; ++order) {
        if (excluded({kHead, head}, {kOrder, order})) continue;
        Choice of = {};
        of[kHead] = head;
        of[kOrder] = order;
        of[kDepth] = 1;
        expect_right(options_of(of), target);
      }
    }
  }
}

// Neighbours stay neighbours in memory: vectors of both are stored as one run.
TEST(RotaryHeads, NeighboursAreStoredTogether) {
  const auto program = [](const RotaryHeads& p) {
    const GroupRunner group(rotary_heads(p), KernelKind::Contract, "host-avx2");
    return group.error().empty() ? group.program_text() : group.error();
  };
  EXPECT_THAT(program({.pairs = 32, .interleaved = true}), HasSubstr("store_interleaved"));
  EXPECT_THAT(program({.pairs = 32}), Not(HasSubstr("store_interleaved")));
  EXPECT_THAT(program({.pairs = 32, .interleaved = true, .caches = Caches::Circular}),
              HasSubstr("store_interleaved"));
}

// The last part of a head is turned, as where a first one carries no position.
TEST(RotaryHeads, TheLastElementsAlone) {
  for (const int head : {96, 48, 40}) {
    const int pairs = head / 8;
    const GroupRunner group(
        fmt::format(R"(graph g(%x: f32[b, s, 24], %cos: f32[s, {1}], %sin: f32[s, {1}]) {{
      %w = constant {{value = f32[24, {2}] random 1}}
      %m = matmul(%x, %w)
      %r = reshape(%m) {{shape = <b, s, 3, {0}>}}
      %t = transpose(%r) {{permutation = [0, 2, 1, 3]}}
      %n = slice(%t) {{starts = <0, 0, 0, 0>, sizes = <b, 3, s, {3}>, steps = [1, 1, 1, 1]}}
      %p = slice(%t) {{starts = <0, 0, 0, {3}>, sizes = <b, 3, s, {4}>, steps = [1, 1, 1, 1]}}
      %u = rope(%p, %cos, %sin)
      %y = concat(%n, %u) {{axis = 3}}
      return %y as "y"
    }})",
                    head, pairs, 3 * head, head - 2 * pairs, 2 * pairs),
        KernelKind::Contract);
    ASSERT_EQ(group.error(), "");
    for (const std::int64_t s : {0, 1, 6, 70}) group.check({{"b", 2}, {"s", s}});
  }
}

// As exporters spell it, of half the head: x cos + [-x2, x1] sin, and the rest behind it.
TEST(RotaryHeads, InPrimitives) {
  for (const int head : {32, 48, 64}) {
    const GroupRunner group(
        fmt::format(R"(graph g(%x: f32[b, s, 24], %cos: f32[s, {1}], %sin: f32[s, {1}]) {{
      %w = constant {{value = f32[24, {2}] random 1}}
      %m = matmul(%x, %w)
      %r = reshape(%m) {{shape = <b, s, 3, {0}>}}
      %t = transpose(%r) {{permutation = [0, 2, 1, 3]}}
      %a = slice(%t) {{starts = <0, 0, 0, 0>, sizes = <b, 3, s, {1}>, steps = [1, 1, 1, 1]}}
      %rest = slice(%t) {{starts = <0, 0, 0, {1}>, sizes = <b, 3, s, {1}>, steps = [1, 1, 1, 1]}}
      %a1 = slice(%a) {{starts = <0, 0, 0, 0>, sizes = <b, 3, s, {3}>, steps = [1, 1, 1, 1]}}
      %a2 = slice(%a) {{starts = <0, 0, 0, {3}>, sizes = <b, 3, s, {3}>, steps = [1, 1, 1, 1]}}
      %n = neg(%a2)
      %h = concat(%n, %a1) {{axis = 3}}
      %c = mul(%a, %cos)
      %d = mul(%h, %sin)
      %e = add(%c, %d)
      %y = concat(%e, %rest) {{axis = 3}}
      return %y as "y"
    }})",
                    head, head / 2, 3 * head, head / 4),
        KernelKind::Contract);
    ASSERT_EQ(group.error(), "");
    for (const std::int64_t s : {0, 1, 6, 70}) group.check({{"b", 2}, {"s", s}});
  }
}

// Keys by columns, as the scores want them: heads are transposed again on their way out.
TEST(RotaryHeads, TransposedOnce) {
  for (const bool interleaved : {false, true}) {
    const GroupRunner group(
        fmt::format(R"(graph g(%x: f32[b, s, 24], %cos: f32[s, 24], %sin: f32[s, 24]) {{
      %w = constant {{value = f32[24, 96] random 1}}
      %m = matmul(%x, %w)
      %r = reshape(%m) {{shape = <b, s, 2, 48>}}
      %t = transpose(%r) {{permutation = [0, 2, 1, 3]}}
      %u = rope(%t, %cos, %sin) {{interleaved = {}}}
      %y = transpose(%u) {{permutation = [0, 1, 3, 2]}}
      return %y as "y"
    }})",
                    interleaved ? 1 : 0),
        KernelKind::Contract);
    ASSERT_EQ(group.error(), "");
    for (const std::int64_t s : {0, 1, 6, 70}) group.check({{"b", 2}, {"s", s}});
  }
}

// A NaN or infinity reaches the pair it is in, and nothing else.
TEST(RotaryHeads, NanAndInfinityStayInTheirPairs) {
  for (const bool interleaved : {false, true}) {
    const RotaryHeads p = {.head = 48, .pairs = 12, .interleaved = interleaved};
    const GroupRunner group(rotary_heads(p), KernelKind::Contract);
    ASSERT_EQ(group.error(), "");
    for (const double special :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      std::vector<Tensor> inputs = group.random_inputs({{"b", 2}, {"s", 7}});
      inputs[0].set_double(3 * 24 + 5, special);
      inputs[1].set_double(5 * 12 + 11, special);
      group.check(inputs);
    }
  }
}

// Positions outside of the table are an error, as they are where the lookup is a kernel of its own.
TEST(RotaryHeads, PositionsAreChecked) {
  const RotaryHeads p = {.head = 48, .pairs = 24, .positions = Positions::OfEach};
  const GroupRunner group(rotary_heads(p), KernelKind::Contract);
  ASSERT_EQ(group.error(), "");
  std::vector<Tensor> inputs = group.random_inputs({{"b", 2}, {"s", 3}});
  ASSERT_TRUE(group.run(inputs));
  inputs[3].set_int(4, kTablePositions);
  const auto outputs = group.run(inputs);
  ASSERT_FALSE(outputs);
  EXPECT_THAT(outputs.error().message, HasSubstr("out of range"));
}

// What only splits heads asks nothing of the weights.
TEST(RotaryHeads, SplitOfWeightsThatAreNoConstant) {
  const auto text = [](const std::string& y) {
    return fmt::format(R"(graph g(%x: f32[b, s, 24], %w: f32[24, 96], %cos: f32[s, 16],
                                  %sin: f32[s, 16]) {{
      %m = matmul(%x, %w)
      %r = reshape(%m) {{shape = <b, s, 3, 32>}}
      %t = transpose(%r) {{permutation = [0, 2, 1, 3]}}
      %y = {}
      return %y as "y"
    }})",
                       y);
  };
  const GroupRunner group(text("neg(%t)"), KernelKind::Contract);
  ASSERT_EQ(group.error(), "");
  for (const std::int64_t s : {0, 1, 6, 70}) group.check({{"b", 2}, {"s", s}});
  EXPECT_EQ(GroupRunner(text("rope(%t, %cos, %sin)"), KernelKind::Contract).error(),
            "only constant weights are packed by the pairs of a head of 32 columns");
}

TEST(RotaryHeads, WhatIsRefusedSaysWhy) {
  const auto error = [](const std::string& text) {
    return GroupRunner(text, KernelKind::Contract, "host").error();
  };
  EXPECT_EQ(error(rotary_heads({.head = 33, .pairs = 8})),
            "a head of 33 columns has 17 that no rotary embedding turns, which blocks of 2 parts "
            "cannot share");
  const auto two = [](const std::string& q, const std::string& k) {
    return fmt::format(R"(graph g(%x: f32[s, 24], %cos: f32[1, s, 8], %sin: f32[1, s, 8]) {{
      %w = constant {{value = f32[24, 96] random 1}}
      %m = matmul(%x, %w)
      %qs = slice(%m) {{starts = <0, 0>, sizes = <s, 48>, steps = [1, 1]}}
      %ks = slice(%m) {{starts = <0, 48>, sizes = <s, 48>, steps = [1, 1]}}
      {}
      {}
      return %q as "q", %k as "k"
    }})",
                       q, k);
  };
  const std::string q = R"(%qr = reshape(%qs) {shape = <1, s, 3, 16>}
    %qt = transpose(%qr) {permutation = [0, 2, 1, 3]}
    %q = rope(%qt, %cos, %sin))";
  const std::string k = R"(%kr = reshape(%ks) {shape = <1, s, 3, 16>}
    %kt = transpose(%kr) {permutation = [0, 2, 1, 3]}
    %k = rope(%kt, %cos, %sin) {interleaved = 1})";
  const std::string wide = R"(%kr = reshape(%ks) {shape = <1, s, 2, 24>}
    %k = transpose(%kr) {permutation = [0, 2, 1, 3]})";
  EXPECT_EQ(error(two(q, k)), "its heads are turned in different pairs of columns");
  EXPECT_EQ(error(two(q, wide)), "heads of 24 columns stand beside heads of 16");
}

}  // namespace
}  // namespace opweld::testing
