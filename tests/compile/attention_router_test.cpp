// The attention half of a layer with a mixture of experts through the whole compiler: one kernel
// where chains of attention are asked for, and no answer changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile.h"
#include "ops/reference.h"
#include "runtime/compare.h"
#include "runtime/compiled.h"

namespace opweld::testing {
namespace {

using ::testing::HasSubstr;

// 3 heads of 8, `width` columns, and so many experts, of which a token chooses two.
std::string half_layer(const std::string& dtype, int width, int experts) {
  return fmt::format(R"(graph g(%q: {0}[b, 3, s, 8], %k: {0}[b, 1, s, 8], %v: {0}[b, 1, s, 8],
          %x: {0}[b, s, {1}]) where s in [17, 4096] {{
    %wo = constant {{value = {0}[24, {1}] random 1}}
    %g = constant {{value = {0}[{1}] random 2}}
    %wr = constant {{value = {0}[{1}, {2}] random 3}}
    %a = attention(%q, %k, %v) {{scale = 0.353553, causal = "top_left"}}
    %t = transpose(%a) {{permutation = [0, 2, 1, 3]}}
    %r = reshape(%t) {{shape = <b, s, 24>}}
    %m = matmul(%r, %wo)
    %h = add(%m, %x)
    %n = rms_norm(%h, %g) {{axis = -1, epsilon = 1e-05}}
    %rows = reshape(%n) {{shape = <b * s, {1}>}}
    %l = matmul(%rows, %wr)
    %p = softmax(%l) {{axis = -1}}
    %w, %i = top_k(%p) {{axis = 1, k = <2>}}
    %sum = reduce_sum(%w) {{axes = [1], keepdims = 1}}
    %share = div(%w, %sum)
    return %h as "h", %n as "n", %share as "share", %i as "i"
  }})",
                     dtype, width, experts);
}

struct Settings {
  FusionLevel level = FusionLevel::Auto;
  bool strict = false;
  int threads = 2;
};

Executable with_chains(const std::string& text, const Settings& settings) {
  CompileOptions options;
  options.level = settings.level;
  options.strict = settings.strict;
  options.threads = settings.threads;
  options.attention_chains = true;
  options.verify_passes = true;
  auto result = compile(parse_graph(text).value(), options);
  EXPECT_TRUE(result) << result.error().message;
  return std::move(result->executable);
}

// No rows; the fewest that there may be; a tail behind whole blocks; sequences that end within one.
const Bindings kSizes[] = {
    {{"b", 0}, {"s", 17}}, {{"b", 1}, {"s", 17}}, {{"b", 1}, {"s", 193}}, {{"b", 3}, {"s", 101}}};

TEST(AttentionRouter, IsOneKernelAndRight) {
  for (const auto& [width, experts] : {std::pair{40, 8}, {31, 5}, {64, 64}}) {
    const std::string text = half_layer("f32", width, experts);
    Executable fused = with_chains(text, {});
    const Graph graph = parse_graph(text).value();
    for (const Bindings& sizes : kSizes) {
      const auto inputs = random_inputs(text, sizes);
      const auto actual = fused.run(inputs).value();
      const auto exact = evaluate(graph, inputs, {.in_f64 = true, .observer = {}}).value();
      for (std::size_t i = 0; i < exact.size(); ++i) {
        const Comparison same = compare(actual[i], exact[i], default_tolerance(actual[i].dtype()));
        EXPECT_TRUE(same.equal) << width << " wide, output " << i << ": " << same.message;
      }
    }
    const std::string plan = to_text(fused.plan({{"b", 1}, {"s", 4000}}));
    EXPECT_THAT(plan,
                HasSubstr("chain: attention + transpose + reshape + matmul + add + rms_norm + "
                          "reshape + matmul + softmax + top_k + reduce_sum + div\n"));
  }
}

TEST(AttentionRouter, IsTheSameToTheBitUnfusedAndOnAnyNumberOfThreads) {
  for (const std::string dtype : {"f32", "f16", "bf16"}) {
    const std::string text = half_layer(dtype, 40, 8);
    Executable unfused = with_chains(text, {.level = FusionLevel::None, .strict = true});
    Executable one = with_chains(text, {.strict = true, .threads = 1});
    Executable three = with_chains(text, {.strict = true, .threads = 3});
    for (const Bindings& sizes : kSizes) {
      SCOPED_TRACE(dtype);
      const auto inputs = random_inputs(text, sizes);
      const auto expected = unfused.run(inputs).value();
      expect_identical(one.run(inputs).value(), expected);
      expect_identical(three.run(inputs).value(), expected);
    }
  }
}

}  // namespace
}  // namespace opweld::testing
