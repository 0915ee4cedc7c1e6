// Heads that are normalised one by one between a projection and a rotary embedding, in the kernel
// of the projection: against the reference in f64, each two options together.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "covering_array.h"
#include "tile/group_runner.h"
#include "tile/rotary_heads.h"

namespace opweld::testing {
namespace {

using ::testing::HasSubstr;
using Positions = RotaryHeads::Positions;
using Caches = RotaryHeads::Caches;
using HeadNorm = RotaryHeads::HeadNorm;

enum Factor : std::uint8_t {
  kHead,
  kOrder,
  kTarget,
  kDType,
  kRows,
  kDepth,
  kHeads,
  kNorm,
  kHeadNorm,
  kBehind,
  kBias,
  kWhole,
  kPositions,
  kCaches,
  kStrict,
  kFactors
};
using Choice = CoveringArray<kFactors>::Choice;

// Multiples of panels and of vectors, and what ends within either.
constexpr std::array kHeadSizes = {128, 64, 16, 32, 48, 80, 96, 256, 24, 20, 10, 6, 2};
enum Order : std::uint8_t { kHalves, kNeighbours, kSomeHalves, kUnturned, kOrders };
constexpr std::array kTargets = {"host-avx512", "host-avx2", "host-amx", "host-generic"};
constexpr std::array kTypes = {"f32", "f16", "bf16", "f64"};
constexpr std::array kRowCounts = {"s", "1", "7"};
// The last is cut into blocks.
constexpr std::array kDepths = {4, 33, 1700};
constexpr std::array<std::array<int, 2>, 4> kHeadCounts = {{{3, 2}, {1, 1}, {4, 1}, {5, 3}}};

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
  // The reference takes too long.
  if (both(kHead, kDepth)) {
    return kHeadSizes[static_cast<std::size_t>(first.level)] > 128 && second.level == 2;
  }
  // A head of two has no pair to spare.
  if (both(kHead, kOrder)) {
    return second.level == kSomeHalves && kHeadSizes[static_cast<std::size_t>(first.level)] == 2;
  }
  // Roundings of halves add up: in long sums, in what a chain keeps of a norm, and at every step of
  // strict numerics, which tests/compile compares bit by bit.
  if (both(kDType, kDepth)) return is_half(first.level) && second.level != 0;
  if (both(kDType, kNorm) || both(kDType, kStrict)) {
    return is_half(first.level) && second.level != 0;
  }
  return false;
}

RotaryHeads options_of(const Choice& of) {
  const auto level = [&](Factor factor) {
    return static_cast<std::size_t>(of[static_cast<std::size_t>(factor)]);
  };
  RotaryHeads p;
  p.head = kHeadSizes[level(kHead)];
  const auto order = static_cast<Order>(level(kOrder));
  const int some = std::max(1, p.head / 8);
  p.pairs = order == kUnturned ? 0 : order == kSomeHalves ? some : p.head / 2;
  p.interleaved = order == kNeighbours;
  p.dtype = kTypes[level(kDType)];
  p.rows = kRowCounts[level(kRows)];
  p.depth = kDepths[level(kDepth)];
  p.heads = kHeadCounts[level(kHeads)][0];
  p.key_heads = kHeadCounts[level(kHeads)][1];
  p.norm = level(kNorm) != 0;
  p.head_norm = level(kHeadNorm) == 0 ? HeadNorm::Rms : HeadNorm::Layer;
  p.norm_behind = level(kBehind) != 0;
  p.bias = level(kBias) != 0;
  p.whole = level(kWhole) != 0;
  p.positions = static_cast<Positions>(level(kPositions));
  p.caches = static_cast<Caches>(level(kCaches));
  return p;
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
  const GroupRunner group(text, KernelKind::Chain, target, strict);
  ASSERT_EQ(group.error(), "");
  for (const std::int64_t s : {0, 1, 6, 13, 70}) {
    group.check(inputs_of(group, {{"b", 2}, {"s", s}}));
    if (p.rows != "s") break;
  }
}

TEST(HeadRows, EveryTwoOptionsTogether) {
  for (const Choice& of : CoveringArray<kFactors>(kLevels, excluded).choices()) {
    expect_right(options_of(of), kTargets[static_cast<std::size_t>(of[kTarget])], of[kStrict] != 0);
  }
}

TEST(HeadRows, OfEverySize) {
  for (int head = 2; head <= 136; head += 2) {
    RotaryHeads p;
    p.head = head;
    p.heads = 2;
    p.key_heads = 1;
    p.pairs = head / 2;
    p.head_norm = HeadNorm::Rms;
    expect_right(p);
  }
}

// More columns than a block has, so that heads of one segment lie in several.
TEST(HeadRows, OfManyBlocks) {
  for (const int head : {64, 80, 128}) {
    RotaryHeads p;
    p.head = head;
    p.heads = 24;
    p.key_heads = 4;
    p.pairs = head / 2;
    p.head_norm = HeadNorm::Rms;
    for (const bool norm : {false, true}) {
      p.norm = norm;
      expect_right(p);
    }
  }
}

TEST(HeadRows, WhatIsNotANumberStaysInItsHead) {
  RotaryHeads p;
  p.head = 16;
  p.pairs = 8;
  p.depth = 16;
  p.head_norm = HeadNorm::Rms;
  const GroupRunner group(rotary_heads(p), KernelKind::Chain);
  ASSERT_EQ(group.error(), "");
  for (const double special :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    std::vector<Tensor> inputs = inputs_of(group, {{"b", 2}, {"s", 7}});
    inputs[0].set_double(3 * p.depth + 5, special);
    group.check(inputs);
  }
}

// The sums of a head of 8000s are beyond f16.
TEST(HeadRows, SquaresOfHalvesDoNotOverflow) {
  RotaryHeads p;
  p.dtype = "f16";
  p.head = 64;
  p.pairs = 32;
  p.depth = 4;
  p.head_norm = HeadNorm::Rms;
  const GroupRunner group(rotary_heads(p), KernelKind::Chain);
  ASSERT_EQ(group.error(), "");
  std::vector<Tensor> inputs = inputs_of(group, {{"b", 1}, {"s", 5}});
  for (std::int64_t i = 0; i < inputs[0].num_elements(); ++i) {
    inputs[0].set_double(i, 16000 + static_cast<double>(i % 3));
  }
  group.check(inputs);
}

std::string with_heads(const std::string& rest) {
  return "graph g(%x: f32[b, s, 24]) {\n%w = constant {value = f32[24, 96] random 1}\n"
         "%g = constant {value = f32[16] random 2}\n%m = matmul(%x, %w)\n" +
         rest + "\n}";
}

const std::string kWholeHeads = "%r = reshape(%m) {shape = <b, s, 6, 16>}\n";

TEST(HeadRows, OfAllColumns) {
  const GroupRunner group(with_heads(kWholeHeads + "%y = rms_norm(%r, %g) {axis = -1, epsilon = "
                                                   "1e-06}\n return %y as \"y\", %m as \"m\""),
                          KernelKind::Chain);
  for (const std::int64_t s : kLengths) group.check({{"b", 2}, {"s", s}});
}

TEST(HeadRows, BackSideBySide) {
  const GroupRunner group(
      with_heads(kWholeHeads + "%n = rms_norm(%r, %g) {axis = -1, epsilon = 1e-06}\n"
                               "%y = reshape(%n) {shape = <b, s, 96>}\n return %y as \"y\""),
      KernelKind::Chain);
  for (const std::int64_t s : kLengths) group.check({{"b", 2}, {"s", s}});
}

TEST(HeadRows, SoftmaxOfEachHead) {
  const GroupRunner group(
      with_heads(kWholeHeads +
                 "%n = softmax(%r) {axis = -1}\n"
                 "%y = transpose(%n) {permutation = [0, 2, 1, 3]}\n return %y as \"y\""),
      KernelKind::Chain);
  for (const std::int64_t s : kLengths) group.check({{"b", 2}, {"s", s}});
}

// Blocks of whole heads and panels would have too many columns.
TEST(HeadRows, RefusedWhereTheyHardlyEverEndWithPanels) {
  RotaryHeads p;
  p.head = 134;
  p.heads = 48;
  p.key_heads = 8;
  p.pairs = 67;
  p.head_norm = HeadNorm::Rms;
  EXPECT_THAT(GroupRunner(rotary_heads(p), KernelKind::Chain).error(),
              HasSubstr("whole heads of 134 columns are too much for a block"));
}

TEST(HeadRows, RefusedWhereTheyAreNoneOfOneSize) {
  const auto error = [](const std::string& rest) {
    return GroupRunner(with_heads(rest), KernelKind::Chain).error();
  };
  // Over heads, not over a head.
  EXPECT_THAT(error("%r = reshape(%m) {shape = <b, s, 12, 8>}\n%y = softmax(%r) {axis = 2}\n"
                    "return %y as \"y\""),
              HasSubstr("it reduces other axes than a head's"));
  const std::string parts =
      "%a = slice(%m) {starts = <0, 0, 0>, sizes = <b, s, 48>, steps = [1, 1, 1]}\n"
      "%c = slice(%m) {starts = <0, 0, 48>, sizes = <b, s, 48>, steps = [1, 1, 1]}\n"
      "%ah = reshape(%a) {shape = <b, s, 3, 16>}\n%ch = reshape(%c) {shape = <b, s, 6, 8>}\n";
  EXPECT_THAT(error(parts + "%y = softmax(%ah) {axis = 3}\n %z = softmax(%ch) {axis = 3}\n"
                            "return %y as \"y\", %z as \"z\""),
              HasSubstr("heads of 8 columns stand beside heads of 16"));
  // What reads both is over none of them.
  const std::string both =
      "%bh = reshape(%c) {shape = <b, s, 3, 16>}\n%y = softmax(%ah) {axis = 3}\n"
      "%z = add(%y, %bh)\n return %z as \"z\"";
  EXPECT_THAT(error(parts + both),
              HasSubstr("an output is made of several parts of the matmul's result"));
}

}  // namespace
}  // namespace opweld::testing
