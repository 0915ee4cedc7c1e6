// Projections of an attention that come split into heads, transposed and turned out of the matmul.
#include "tile/group_runner.h"
#include "tile/rotary_heads.h"

namespace opweld::testing {
namespace {

void expect_right(const RotaryHeads& p, const std::string& target = "host") {
  const KernelKind kind = p.norm ? KernelKind::Chain : KernelKind::Contract;
  const GroupRunner runner(rotary_heads(p), kind, target);
  ASSERT_EQ(runner.error(), "");
  for (const std::int64_t s : {0, 1, 5, 6, 70}) runner.check({{"b", 2}, {"s", s}});
}

TEST(HeadSegments, AreTurnedInTheEpilogue) {
  expect_right({.pairs = 32});
  expect_right({.pairs = 32, .bias = true});
  expect_right({.head = 128, .pairs = 64});
  expect_right({.depth = 1, .heads = 1, .key_heads = 1, .pairs = 32});
}

TEST(HeadSegments, BehindANorm) {
  expect_right({.pairs = 32, .norm = true});
  expect_right({.depth = 33, .pairs = 32, .bias = true, .norm = true});
}

TEST(HeadSegments, BesideTheWholeResult) {
  expect_right({.pairs = 32, .whole = true});
  expect_right({.pairs = 32, .bias = true, .whole = true});
}

TEST(HeadSegments, DepthsThatGoThroughBlocks) {
  expect_right({.depth = 1700, .heads = 1, .key_heads = 1, .pairs = 32});
}

TEST(HeadSegments, EveryTargetAndType) {
  for (const std::string target : {"host-generic", "host-avx2", "host-avx512", "host-amx"}) {
    if (!find_target(target)) continue;
    expect_right({.pairs = 32, .bias = true}, target);
    expect_right({.dtype = "f64", .pairs = 32, .bias = true}, target);
    // With few products, or roundings of halves add up.
    expect_right({.dtype = "f16", .depth = 4, .pairs = 32, .bias = true}, target);
    expect_right({.dtype = "bf16", .depth = 4, .pairs = 32, .bias = true}, target);
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

}  // namespace
}  // namespace opweld::testing
