// Projections of an attention that come split into heads, transposed and turned out of the matmul.
#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

struct Projections {
  std::string dtype = "f32";
  int depth = 24;
  int head = 64;
  int heads = 3;      // of q
  int key_heads = 2;  // of k and v
  bool bias = false;
  bool norm = false;
  bool interleaved = false;
  bool whole = false;  // the result of the matmul is an output, too
  int pairs = 0;       // that are turned; 0: all
};

// q and k turned, v as it is, all [b, heads, s, head].
std::string group(const Projections& p) {
  const int columns = (p.heads + 2 * p.key_heads) * p.head;
  const int pairs = p.pairs > 0 ? p.pairs : p.head / 2;
  const auto take = [&](const std::string& name, int first, int heads) {
    return fmt::format(
        "%{0}s = slice(%d) {{starts = <0, 0, {1}>, sizes = <b, s, {2}>, steps = [1, 1, 1]}}\n"
        "%{0}r = reshape(%{0}s) {{shape = <b, s, {3}, {4}>}}\n"
        "%{0} = transpose(%{0}r) {{permutation = [0, 2, 1, 3]}}\n",
        name, first * p.head, heads * p.head, heads, p.head);
  };
  std::string text =
      fmt::format("graph g(%x: {0}[b, s, {1}], %cos: {0}[s, {2}], %sin: {0}[b, s, {2}]) {{\n",
                  p.dtype, p.depth, pairs);
  text += fmt::format("%w = constant {{value = {}[{}, {}] random 1}}\n", p.dtype, p.depth, columns);
  text += fmt::format("%c = constant {{value = {}[{}] random 2}}\n", p.dtype, columns);
  text += fmt::format("%g = constant {{value = {}[{}] random 3}}\n", p.dtype, p.depth);
  text += p.norm ? "%n = rms_norm(%x, %g) {axis = -1, epsilon = 1e-06}\n%m = matmul(%n, %w)\n"
                 : "%m = matmul(%x, %w)\n";
  // Sums of many products are scaled down, as their rounding is.
  text += fmt::format("%f = constant {{value = {}[] {{0.015625}}}}\n", p.dtype);
  text += p.bias ? "%d = add(%m, %c)\n" : "%d = mul(%m, %f)\n";
  text += take("q", 0, p.heads) + take("k", p.heads, p.key_heads) +
          take("v", p.heads + p.key_heads, p.key_heads);
  const std::string attributes = p.interleaved ? " {interleaved = 1}" : "";
  text += "%qr2 = rope(%q, %cos, %sin)" + attributes + "\n";
  text += "%kr2 = rope(%k, %cos, %sin)" + attributes + "\n";
  text += "return %qr2 as \"q\", %kr2 as \"k\", %v as \"v\"";
  text += p.whole ? ", %d as \"d\"\n}" : "\n}";
  return text;
}

KernelKind kind_of(const Projections& p) {
  return p.norm ? KernelKind::Chain : KernelKind::Contract;
}

void expect_right(const Projections& p, const std::string& target = "host") {
  const GroupRunner runner(group(p), kind_of(p), target);
  ASSERT_EQ(runner.error(), "");
  for (const std::int64_t s : {0, 1, 5, 6, 70}) runner.check({{"b", 2}, {"s", s}});
}

TEST(HeadSegments, AreTurnedInTheEpilogue) {
  expect_right({});
  expect_right({.bias = true});
  expect_right({.head = 128});
  expect_right({.depth = 1, .heads = 1, .key_heads = 1});
}

TEST(HeadSegments, BehindANorm) {
  expect_right({.norm = true});
  expect_right({.depth = 33, .bias = true, .norm = true});
}

TEST(HeadSegments, BesideTheWholeResult) {
  expect_right({.whole = true});
  expect_right({.bias = true, .whole = true});
}

TEST(HeadSegments, DepthsThatGoThroughBlocks) {
  expect_right({.depth = 1700, .heads = 1, .key_heads = 1});
}

TEST(HeadSegments, EveryTargetAndType) {
  for (const std::string target : {"host-generic", "host-avx2", "host-avx512", "host-amx"}) {
    if (!find_target(target)) continue;
    expect_right({.bias = true}, target);
    expect_right({.dtype = "f64", .bias = true}, target);
    // With few products, or roundings of halves add up.
    expect_right({.dtype = "f16", .depth = 4, .bias = true}, target);
    expect_right({.dtype = "bf16", .depth = 4, .bias = true}, target);
  }
}

// One projection by itself, of any number of rows or of a single one, has no segment to slice.
TEST(HeadSegments, OneProjectionIsAllColumns) {
  for (const std::string rows : {"s", "1"}) {
    for (const bool turned : {false, true}) {
      const GroupRunner runner(
          fmt::format(R"(graph g(%x: f32[b, {0}, 24], %cos: f32[{0}, 32], %sin: f32[{0}, 32]) {{
        %w = constant {{value = f32[24, 128] random 1}}
        %m = matmul(%x, %w)
        %r = reshape(%m) {{shape = <b, {0}, 2, 64>}}
        %t = transpose(%r) {{permutation = [0, 2, 1, 3]}}
        %y = {1}
        return %y as "y"
      }})",
                      rows, turned ? "rope(%t, %cos, %sin)" : "neg(%t)"),
          KernelKind::Contract);
      ASSERT_EQ(runner.error(), "");
      for (const std::int64_t s : {0, 1, 5, 70}) runner.check({{"b", 2}, {"s", s}});
    }
  }
}

// The slice of a single row lies side by side in the result, split into heads or not.
TEST(HeadSegments, OfASingleRow) {
  const GroupRunner runner(R"(graph g(%x: f32[1, 1, 24]) {
    %w = constant {value = f32[24, 192] random 1}
    %m = matmul(%x, %w)
    %q = slice(%m) {starts = <0, 0, 0>, sizes = <1, 1, 128>, steps = [1, 1, 1]}
    %qr = reshape(%q) {shape = <1, 1, 2, 64>}
    %qt = transpose(%qr) {permutation = [0, 2, 1, 3]}
    %k = slice(%m) {starts = <0, 0, 128>, sizes = <1, 1, 64>, steps = [1, 1, 1]}
    %kr = reshape(%k) {shape = <1, 1, 1, 64>}
    %kt = transpose(%kr) {permutation = [0, 2, 1, 3]}
    return %qt as "q", %kt as "k"
  })",
                           KernelKind::Contract);
  ASSERT_EQ(runner.error(), "");
  runner.check(Bindings{});
}

// The first segment has fewer heads than the whole, whose columns choose what is added to them.
TEST(HeadSegments, ColumnsOfTheWholeGoPastTheFirstSegment) {
  const GroupRunner runner(R"(graph g(%x: f32[s, 24], %a: f32[s, 128], %b: f32[s, 128]) {
    %w = constant {value = f32[24, 256] random 1}
    %m = matmul(%x, %w)
    %q = slice(%m) {starts = <0, 0>, sizes = <s, 128>, steps = [1, 1]}
    %r = reshape(%q) {shape = <s, 2, 64>}
    %t = transpose(%r) {permutation = [1, 0, 2]}
    %c = concat(%a, %b) {axis = 1}
    %y = add(%m, %c)
    return %t as "t", %y as "y"
  })",
                           KernelKind::Contract);
  ASSERT_EQ(runner.error(), "");
  for (const std::int64_t s : {0, 1, 5, 6, 53}) runner.check({{"s", s}});
}

TEST(HeadSegments, WhatIsNotHalvesOfAHeadIsRefused) {
  const auto error = [](const Projections& p) {
    return GroupRunner(group(p), kind_of(p), "host").error();
  };
  EXPECT_NE(error({.interleaved = true}), "");
  EXPECT_NE(error({.pairs = 16}), "");
  EXPECT_NE(error({.head = 24}), "");  // cut by panels
}

}  // namespace
}  // namespace opweld::testing
