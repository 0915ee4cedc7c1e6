// The projections of an attention that keeps its keys and values: one kernel up to what attention
// reads and the model returns.
#include <gtest/gtest.h>

#include "compile.h"
#include "ops/reference.h"
#include "runtime/compare.h"
#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

// Norm, q and k turned, v as it is; keys and values are outputs. As exporters write it: three
// matmuls, each behind the norm. Of a head, so many `pairs` are turned; all if 0.
std::string projections(const std::string& dtype, int head, int key_heads, bool interleaved = false,
                        int pairs = 0) {
  const int heads = 2 * key_heads;
  const auto project = [&](const std::string& name, int count, int seed) {
    return fmt::format(
        "%w{0} = constant {{value = {1}[24, {2}] random {3}}}\n"
        "%m{0} = matmul(%n, %w{0})\n"
        "%r{0} = reshape(%m{0}) {{shape = <b, s, {4}, {5}>}}\n"
        "%{0} = transpose(%r{0}) {{permutation = [0, 2, 1, 3]}}\n",
        name, dtype, count * head, seed, count, head);
  };
  return fmt::format("graph g(%x: {0}[b, s, 24], %cos: {0}[s, {1}], %sin: {0}[s, {1}]) {{\n", dtype,
                     pairs > 0 ? pairs : head / 2) +
         fmt::format("%g = constant {{value = {}[24] random 1}}\n", dtype) +
         "%n = rms_norm(%x, %g) {axis = -1, epsilon = 1e-06}\n" + project("q", heads, 2) +
         project("k", key_heads, 3) + project("v", key_heads, 4) +
         fmt::format(R"(
    %qt = rope(%q, %cos, %sin) {{interleaved = {0}}}
    %kt = rope(%k, %cos, %sin) {{interleaved = {0}}}
    %a = attention(%qt, %kt, %v) {{causal = "top_left", scale = 0.01}}
    return %a as "a", %kt as "keys", %v as "values"
  }})",
                     interleaved ? 1 : 0);
}

Executable compiled(const std::string& text, FusionLevel level, bool strict, int threads) {
  CompileOptions options;
  options.level = level;
  options.strict = strict;
  options.threads = threads;
  options.verify_passes = true;
  auto result = compile(parse_graph(text).value(), options);
  EXPECT_TRUE(result) << result.error().message;
  return std::move(result->executable);
}

TEST(ProjectionsPlan, AreOneKernelUpToTheAttention) {
  EXPECT_EQ(to_text(compiled(projections("f32", 64, 2), FusionLevel::Auto, false, 1).plan()),
            "0 chain: rms_norm + matmul + slice + slice + slice + reshape + transpose + reshape + "
            "transpose + reshape + transpose + rope + rope\n1 attention: attention\n");
}

// Whether the norm goes with them as well is a matter of cost.
TEST(ProjectionsPlan, HeadsOfAnySizeAndAnyPairsAreInTheMatmulsKernel) {
  const std::string projected =
      "matmul + slice + slice + slice + reshape + transpose + reshape + transpose + reshape + "
      "transpose + rope + rope\n";
  const std::string together = "0 chain: rms_norm + " + projected + "1 attention: attention\n";
  const std::string norm_apart =
      "0 row: rms_norm\n1 contract: " + projected + "2 attention: attention\n";
  for (const int head : {24, 32, 80}) {
    for (const bool interleaved : {false, true}) {
      for (const int pairs : {0, head / 8}) {
        const std::string text = projections("f32", head, 2, interleaved, pairs);
        const std::string plan = to_text(compiled(text, FusionLevel::Auto, false, 1).plan());
        EXPECT_TRUE(plan == together || plan == norm_apart)
            << head << (interleaved ? " interleaved " : " ") << pairs << "\n"
            << plan;
      }
    }
  }
}

// Three of eight pairs leave ten elements of a head of sixteen; of seventeen, eleven, which parts
// of a panel cannot share.
TEST(ProjectionsPlan, WhatStaysApartIsSaidWhy) {
  const auto reasons = [](int head) {
    std::string text;
    const Executable model =
        compiled(projections("f32", head, 2, false, 3), FusionLevel::Auto, false, 1);
    for (const Verdict& verdict : model.plan().verdicts) text += verdict.detail + "\n";
    return text;
  };
  const std::string why = "has 11 that no rotary embedding turns";
  EXPECT_EQ(reasons(16).find(why), std::string::npos);
  EXPECT_NE(reasons(17).find("a head of 17 columns " + why), std::string::npos) << reasons(17);
}

struct Form {
  int head;
  bool interleaved;
  int pairs;
};
constexpr Form kForms[] = {{64, false, 0}, {24, false, 0}, {32, true, 0}, {80, false, 16}};

TEST(ProjectionsResults, AreRightAtEverySizeAndInStrictBitIdentical) {
  for (const std::string dtype : {"f32", "f16", "bf16", "f64"}) {
    for (const auto& [head, interleaved, pairs] : kForms) {
      const std::string text = projections(dtype, head, 1, interleaved, pairs);
      const Graph graph = parse_graph(text).value();
      for (const bool strict : {false, true}) {
        Executable unfused = compiled(text, FusionLevel::None, strict, 1);
        Executable fused = compiled(text, FusionLevel::Auto, strict, 2);
        for (const std::int64_t s : {0, 1, 5, 33}) {
          std::vector<Tensor> inputs;
          for (const Value* input : graph.inputs()) {
            const Sizes sizes = evaluate(input->shape(), {{"b", 2}, {"s", s}}).value();
            inputs.push_back(random_tensor(input->type(), sizes, 7));
          }
          const auto exact = evaluate(graph, inputs, {.in_f64 = true, .observer = {}}).value();
          const auto apart = unfused.run(inputs).value();
          const auto together = fused.run(inputs).value();
          for (std::size_t i = 0; i < exact.size(); ++i) {
            // Scores and sums of rounded halves may be off for some; keys and values are not.
            const bool sums = i == 0 && byte_size(together[i].dtype()) == 2;
            const Comparison result = compare(together[i], sums ? apart[i] : exact[i],
                                              default_tolerance(together[i].dtype()));
            EXPECT_TRUE(result.equal) << dtype << " " << head << " s = " << s << " output " << i
                                      << ": " << result.message;
            EXPECT_TRUE(!strict || identical(together[i], apart[i])) << dtype << " s = " << s;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace opweld::testing
