// Every choice of block sizes that a schedule offers gives right results, over sizes that fill no
// block; those that may not change the order of a sum change no bit.
#include "tile/blocking.h"

#include <gmock/gmock.h>

#include <cstring>
#include <set>

#include "tile/gate_pair.h"
#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

using ::testing::HasSubstr;
using tile::Blocking;

void expect_same_bits(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i].num_bytes(), expected[i].num_bytes());
    const auto bytes = static_cast<std::size_t>(actual[i].num_bytes());
    EXPECT_TRUE(bytes == 0 || std::memcmp(actual[i].data(), expected[i].data(), bytes) == 0);
  }
}

// All candidates of a group at these sizes: against the reference, and against the default.
void check_all(const std::string& text, KernelKind kind, const std::string& target,
               const std::vector<Bindings>& sizes, std::size_t least_candidates) {
  const GroupRunner usual(text, kind, target);
  ASSERT_EQ(usual.error(), "");
  ASSERT_GE(usual.choices().candidates.size(), least_candidates);
  ASSERT_LE(usual.choices().candidates.size(), tile::kMostCandidates);
  std::set<std::string> programs = {usual.program_text()};
  for (const Blocking& blocking : usual.choices().candidates) {
    SCOPED_TRACE(target + ": " + to_text(blocking));
    EXPECT_FALSE(blocking.is_default());
    const GroupRunner chosen(text, kind, target, false, blocking);
    ASSERT_EQ(chosen.error(), "");
    programs.insert(chosen.program_text());
    for (const Bindings& bindings : sizes) {
      const std::vector<Tensor> inputs = usual.random_inputs(bindings);
      chosen.check(inputs);
      if (blocking.reorders()) continue;
      const auto expected = usual.run(inputs);
      const auto actual = chosen.run(inputs);
      ASSERT_TRUE(expected && actual);
      expect_same_bits(*actual, *expected);
    }
  }
  // The candidates reach the program.
  EXPECT_GT(programs.size(), least_candidates);
}

class Blockings : public ::testing::TestWithParam<std::string> {};

std::string product(const std::string& dtype, int depth, int columns) {
  return fmt::format(R"(graph g(%x: {2}[b, s, {0}], %r: {2}[b, s, {1}]) {{
    %w = constant {{value = {2}[{0}, {1}] random 3}}
    %m = matmul(%x, %w)
    %y = add(%m, %r)
    return %y as "y"
  }})",
                     depth, columns, dtype);
}

TEST_P(Blockings, OfProductsWithWeights) {
  for (const std::string dtype : {"f32", "bf16"}) {
    for (const auto& [depth, columns] : {std::pair(97, 131), std::pair(1600, 50)}) {
      check_all(product(dtype, depth, columns), KernelKind::Contract, GetParam(),
                {{{"b", 1}, {"s", 1}}, {{"b", 2}, {"s", 7}}, {{"b", 1}, {"s", 211}}}, 3);
    }
  }
}

TEST_P(Blockings, OfRowsThatAreKnown) {
  check_all(R"(graph g(%x: f32[37, 70]) {
    %w = constant {value = f32[70, 300] random 3}
    %m = matmul(%x, %w)
    %y = relu(%m)
    return %y as "y"
  })",
            KernelKind::Contract, GetParam(), {{}}, 3);
}

TEST_P(Blockings, OfGatePairs) {
  for (const std::string dtype : {"f32", "bf16"}) {
    check_all(gate_pair(dtype, 50, 100), KernelKind::Contract, GetParam(),
              {{{"b", 1}, {"s", 1}}, {{"b", 2}, {"s", 45}}}, 3);
  }
}

TEST_P(Blockings, OfProductsWithStatisticsOfTheirRows) {
  for (const std::string dtype : {"f32", "bf16"}) {
    check_all(fmt::format(R"(graph g(%x: {0}[s, 97]) {{
      %w = constant {{value = {0}[97, 331] random 3}}
      %y = matmul(%x, %w)
      %q = reduce_sum_square(%y) {{axes = [1], keepdims = 0}}
      %h = reduce_max(%y) {{axes = [1], keepdims = 0}}
      %i = argmax(%y) {{axis = 1, keepdims = 0, select_last = 0}}
      return %q as "q", %h as "h", %i as "i"
    }})",
                          dtype),
              KernelKind::Contract, GetParam(), {{{"s", 1}}, {{"s", 7}}, {{"s", 211}}}, 3);
  }
}

TEST_P(Blockings, OfProductsOfTwoActivations) {
  check_all(R"(graph g(%a: f32[b, s, 40], %c: f32[b, 40, t]) {
    %y = matmul(%a, %c)
    return %y as "y"
  })",
            KernelKind::Contract, GetParam(),
            {{{"b", 2}, {"s", 5}, {"t", 1}}, {{"b", 1}, {"s", 67}, {"t", 130}}}, 3);
}

TEST_P(Blockings, OfAttentionOverManyQueries) {
  check_all(R"(graph g(%q: f32[b, 4, s, 16], %k: f32[b, 2, t, 16], %v: f32[b, 2, t, 24]) {
    %y = attention(%q, %k, %v) {scale = 0.3, causal = "bottom_right"}
    return %y as "y"
  })",
            KernelKind::Attention, GetParam(),
            {{{"b", 2}, {"s", 1}, {"t", 130}},
             {{"b", 1}, {"s", 7}, {"t", 50}},
             {{"b", 1}, {"s", 210}, {"t", 211}}},
            5);
}

TEST_P(Blockings, OfAttentionOverManyQueriesInBf16) {
  check_all(R"(graph g(%q: bf16[b, 4, s, 40], %k: bf16[b, 2, t, 40], %v: bf16[b, 2, t, 24]) {
    %y = attention(%q, %k, %v) {scale = 0.3, causal = "bottom_right"}
    return %y as "y"
  })",
            KernelKind::Attention, GetParam(),
            {{{"b", 2}, {"s", 1}, {"t", 130}}, {{"b", 1}, {"s", 210}, {"t", 310}}}, 5);
}

TEST_P(Blockings, OfAttentionOverOneQuery) {
  check_all(R"(graph g(%q: f32[b, 4, 1, 16], %k: f32[b, 2, t, 16], %v: f32[b, 2, t, 16]) {
    %y = attention(%q, %k, %v) {scale = 0.3, causal = "none"}
    return %y as "y"
  })",
            KernelKind::Attention, GetParam(), {{{"b", 2}, {"t", 1}}, {{"b", 1}, {"t", 1031}}}, 2);
}

TEST_P(Blockings, OfChains) {
  check_all(R"(graph g(%x: f32[m, 40], %g: f32[40]) {
    %wu = constant {value = f32[40, 90] random 1}
    %wd = constant {value = f32[90, 40] random 2}
    %n = rms_norm(%x, %g) {axis = -1, epsilon = 1e-05}
    %u = matmul(%n, %wu)
    %a = relu(%u)
    %d = matmul(%a, %wd)
    %y = add(%d, %x)
    return %y as "y"
  })",
            KernelKind::Chain, GetParam(), {{{"m", 1}}, {{"m", 7}}, {{"m", 211}}}, 3);
}

TEST_P(Blockings, OfChainsWhoseColumnsAreTasks) {
  check_all(R"(graph g(%x: f32[m, 40], %g: f32[40]) {
    %w = constant {value = f32[40, 300] random 1}
    %n = rms_norm(%x, %g) {axis = -1, epsilon = 1e-05}
    %y = matmul(%n, %w)
    return %y as "y"
  })",
            KernelKind::Chain, GetParam(), {{{"m", 1}}, {{"m", 7}}, {{"m", 211}}}, 3);
}

INSTANTIATE_TEST_SUITE_P(Targets, Blockings, ::testing::Values("host", "host-avx2"),
                         [](const auto& target) {
                           return target.param == "host" ? "Widest" : "Avx2";
                         });

TEST(Blocking, StrictAttentionHasNoChoice) {
  const GroupRunner group(
      R"(graph g(%q: f32[b, 4, s, 16], %k: f32[b, 2, t, 16], %v: f32[b, 2, t, 16]) {
    %y = attention(%q, %k, %v) {scale = 0.3, causal = "none"}
    return %y as "y"
  })",
      KernelKind::Attention, "host", /*strict=*/true);
  EXPECT_THAT(group.choices().candidates, ::testing::IsEmpty());
}

std::string class_of(const std::string& text) {
  return GroupRunner(text, KernelKind::Contract, "host-avx2").choices().shape;
}

TEST(Blocking, ClassesTellSizesApartAsFarAsTheyMatter) {
  EXPECT_EQ(class_of(product("f32", 384, 1536)), "f32 * x 384 . f32 384 x 1536");
  EXPECT_EQ(class_of(product("f32", 390, 1500)), class_of(product("f32", 384, 1536)));
  EXPECT_NE(class_of(product("f32", 384, 1536)), class_of(product("f32", 512, 1536)));
  EXPECT_NE(class_of(product("f32", 384, 1536)), class_of(product("bf16", 384, 1536)));
  EXPECT_THAT(class_of(gate_pair("f32", 64, 96)), HasSubstr("2 parts"));
}

TEST(Blocking, SizesAreRoundedToTheNearest) {
  const std::pair<std::int64_t, const char*> kCases[] = {
      {0, "0"},   {1, "1"},   {2, "2"},     {3, "3"},       {4, "4"},
      {5, "6"},   {6, "6"},   {7, "8"},     {9, "8"},       {10, "12"},
      {13, "12"}, {14, "16"}, {384, "384"}, {1000, "1024"}, {11008, "12288"}};
  for (const auto& [size, text] : kCases) EXPECT_EQ(tile::rounded_text(Dim(size)), text) << size;
  EXPECT_EQ(tile::rounded_text(Dim(std::int64_t{1} << 62)), std::to_string(std::int64_t{1} << 62));
  EXPECT_EQ(tile::rounded_text(Dim::symbol("s")), "*");
}

TEST(Blocking, AsText) {
  EXPECT_EQ(to_text(Blocking{}), "the default");
  EXPECT_EQ(to_text(Blocking{.tile_rows = 12, .tile_vectors = 2, .depth = 512}),
            "register tile 12 x 2, depth 512");
  EXPECT_EQ(to_text(Blocking{.rows = 8, .panels = 3}), "rows 8, panels 3");
  EXPECT_EQ(to_text(Blocking{.queries = 32, .key_block = 48}), "queries 32, keys 48");
}

}  // namespace
}  // namespace opweld::testing
