// Attention as it is run: on several threads, and in how much memory.
#include <gtest/gtest.h>

#include <cstring>

#include "compile.h"
#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

constexpr std::string_view kDecode = R"(
graph g(%q: f32[b, 4, 1, 16], %k: f32[b, 2, t, 16], %v: f32[b, 2, t, 16]) {
  %a = attention(%q, %k, %v) {scale = 0.25, causal = "none"}
  %y = neg(%a)
  return %y as "y"
})";

// A free number of queries, over pages of 16 keys.
constexpr std::string_view kPaged = R"(
graph g(%q: f32[b, 4, s, 16], %k: f32[5, 2, 16, 16], %v: f32[5, 2, 16, 16], %n: i64[b],
        %c: i64[b, w]) {
  %a = attention(%q, %k, %v, _, %n, _, %c) {scale = 0.25, causal = "bottom_right"}
  %y = neg(%a)
  return %y as "y"
})";

constexpr std::string_view kPrefill = R"(
graph g(%x: f32[2, s, 8]) {
  %h = reshape(%x) {shape = <1, 2, s, 8>}
  %q = mul(%h, %h)
  %a = attention(%q, %h, %h) {scale = 0.25, causal = "top_left"}
  %y = neg(%a)
  return %y as "y"
})";

Executable compiled(std::string_view text, int threads) {
  CompileOptions options;
  options.threads = threads;
  auto result = compile(parse_graph(std::string(text)).value(), options);
  EXPECT_TRUE(result) << result.error().message;
  return std::move(result->executable);
}

void expect_same_bits_on_any_team(std::string_view text, const std::vector<Bindings>& sizes) {
  Executable alone = compiled(text, 1);
  ASSERT_EQ(alone.plan().kernels.size(), 1U);
  for (const int threads : {2, 5}) {
    Executable team = compiled(text, threads);
    for (const Bindings& bindings : sizes) {
      std::vector<Tensor> inputs;
      for (const auto* input : alone.graph().inputs()) {
        inputs.push_back(
            random_tensor(input->type(), evaluate(input->shape(), bindings).value(), 7));
        // Tables name one of five pages; sequences differ in length.
        if (input->type().rank() != 1) continue;
        for (std::int64_t b = 0; b < inputs.back().num_elements(); ++b) {
          inputs.back().set_int(b, 16 * bindings.find("w").value() - 5 * b);
        }
      }
      const Tensor expected = std::move(alone.run(inputs)->front());
      for (int repeat = 0; repeat < 20; ++repeat) {
        const Tensor actual = std::move(team.run(inputs)->front());
        const auto bytes = static_cast<std::size_t>(expected.num_bytes());
        ASSERT_EQ(std::memcmp(actual.data(), expected.data(), bytes), 0);
      }
    }
  }
}

TEST(Attention, SplitKeysGiveTheSameBitsOnAnyNumberOfThreads) {
  std::vector<Bindings> sizes;
  for (const std::int64_t keys : {0, 3, 700, 5000}) sizes.push_back({{"b", 3}, {"t", keys}});
  expect_same_bits_on_any_team(kDecode, sizes);
}

TEST(Attention, SplitPagesGiveTheSameBitsOnAnyNumberOfThreads) {
  std::vector<Bindings> sizes;
  for (const std::int64_t queries : {1, 2, 16, 17}) {
    for (const std::int64_t pages : {1, 50}) {
      sizes.push_back({{"b", 3}, {"s", queries}, {"w", pages}});
    }
  }
  expect_same_bits_on_any_team(kPaged, sizes);
}

// Of a run with so many queries and keys.
std::int64_t bytes_worked_in(Executable& executable, std::int64_t length) {
  const Value* input = executable.graph().inputs()[0];
  const std::vector<Tensor> inputs = {random_tensor(input->type(), {2, length, 8}, 1)};
  RunStats stats;
  EXPECT_TRUE(executable.run(inputs, &stats));
  std::int64_t scratch = 0;
  for (const ExecutableKernel& kernel : executable.kernels()) {
    if (kernel.code == nullptr) continue;
    std::vector<std::int64_t> symbols(kernel.program.symbols.size(), length);  // s alone
    scratch += kernel.code->scratch_bytes.evaluate(symbols).value();
  }
  return stats.arena_bytes + scratch;
}

TEST(Attention, WorksInMemoryLinearInTheLength) {
  Executable executable = compiled(kPrefill, 2);
  const std::int64_t shorter = bytes_worked_in(executable, 4096);
  const std::int64_t longer = bytes_worked_in(executable, 16384);
  EXPECT_LE(longer, 4 * shorter);
  // The scores of one head alone would take 1 GiB.
  EXPECT_LE(longer, std::int64_t{4} << 20);
}

}  // namespace
}  // namespace opweld::testing
