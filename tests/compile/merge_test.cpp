// Merged projections from the graph to the results: fewer kernels, and not a bit of difference.
#include <gtest/gtest.h>

#include <limits>

#include "compile.h"
#include "ops/reference.h"
#include "runtime/compare.h"
#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

// An attention layer and a gated feed-forward, both on x: three projections with biases and of two
// widths, and two with none. Widths with and without tails in vectors and panels.
std::string layer(const std::string& dtype, int head, int width) {
  const auto constant = [&](const std::string& name, const std::string& sizes, int seed) {
    return fmt::format("%{} = constant {{value = {}[{}] random {}}}\n", name, dtype, sizes, seed);
  };
  const int heads = 2 * head;
  const int deep = heads + 2;
  const auto head_view = [&](const std::string& name, int size) {
    return fmt::format(
        "%{0}r = reshape(%{0}) {{shape = <b, s, 2, {1}>}}\n"
        "%{0}h = transpose(%{0}r) {{permutation = [0, 2, 1, 3]}}\n",
        name, size);
  };
  return "graph g(%x: " + dtype + "[b, s, 12]) {\n" +
         constant("wq", fmt::format("12, {}", heads), 1) +
         constant("wk", fmt::format("12, {}", heads), 2) +
         constant("wv", fmt::format("12, {}", deep), 3) +
         constant("wg", fmt::format("12, {}", width), 4) +
         constant("wu", fmt::format("12, {}", width), 5) +
         constant("bq", std::to_string(heads), 6) + constant("bv", std::to_string(deep), 7) + R"(
    %qm = matmul(%x, %wq)
    %q = add(%qm, %bq)
    %k = matmul(%x, %wk)
    %vm = matmul(%x, %wv)
    %v = add(%bv, %vm)
)" + head_view("q", head) +
         head_view("k", head) + head_view("v", head + 1) + R"(
    %scores = transpose(%kh) {permutation = [0, 1, 3, 2]}
    %products = matmul(%qh, %scores)
    %scale = constant {value = )" +
         dtype + R"([] {0.0625}}
    %qk = mul(%products, %scale)
    %p = softmax(%qk) {axis = -1}
    %a = matmul(%p, %vh)
    %g = matmul(%x, %wg)
    %u = matmul(%x, %wu)
    %sg = silu(%g)
    %y = mul(%sg, %u)
    return %a as "a", %y as "y"
  })";
}

Executable compiled(const std::string& text, FusionLevel level, bool strict = false,
                    const std::string& target = "host") {
  CompileOptions options;
  options.level = level;
  options.strict = strict;
  options.target = target;
  options.threads = 2;
  options.verify_passes = true;
  auto result = compile(parse_graph(text).value(), options);
  EXPECT_TRUE(result) << result.error().message;
  return std::move(result->executable);
}

struct Case {
  std::string dtype;
  int head;
  int width;
};

class Merged : public ::testing::TestWithParam<Case> {};

TEST_P(Merged, IsRightAtEverySizeAndInStrictBitIdentical) {
  const auto& [dtype, head, width] = GetParam();
  const std::string text = layer(dtype, head, width);
  const Graph graph = parse_graph(text).value();
  for (const bool strict : {false, true}) {
    Executable unfused = compiled(text, FusionLevel::None, strict);
    Executable fused = compiled(text, FusionLevel::Auto, strict);
    EXPECT_LT(fused.plan().kernels.size(), unfused.plan().kernels.size());
    for (const std::int64_t s : {0, 1, 2, 5, 16, 17, 33, 210}) {
      const std::vector<Tensor> inputs = {
          random_tensor(graph.inputs()[0]->type(), {2, s, 12}, static_cast<unsigned>(s) + 1)};
      const auto exact = evaluate(graph, inputs, {.in_f64 = true, .observer = {}}).value();
      const auto apart = unfused.run(inputs).value();
      const auto together = fused.run(inputs).value();
      for (std::size_t i = 0; i < exact.size(); ++i) {
        const Tolerance tolerance = default_tolerance(together[i].dtype());
        // What a softmax makes of scores rounded to a half type may be off for one in a hundred.
        const bool half = byte_size(together[i].dtype()) == 2;
        const Comparison result = half ? compare(together[i], exact[i], tolerance)
                                       : compare_strictly(together[i], exact[i], tolerance);
        EXPECT_TRUE(result.equal) << "s = " << s << ": " << result.message;
        EXPECT_TRUE(!strict || identical(together[i], apart[i])) << "s = " << s;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DtypesAndTails, Merged,
                         ::testing::Values(Case{"f32", 8, 64}, Case{"f32", 5, 33},
                                           Case{"f32", 16, 96}, Case{"f32", 3, 1},
                                           Case{"f16", 8, 64}, Case{"f16", 5, 33},
                                           Case{"bf16", 8, 64}, Case{"bf16", 5, 33},
                                           Case{"f64", 8, 64}, Case{"f64", 5, 17}),
                         [](const auto& name) {
                           const Case& of = name.param;
                           return fmt::format("{}_{}_{}", of.dtype, of.head, of.width);
                         });

TEST(MergedPlan, OneKernelForAllProjectionsAndOneForTheGate) {
  EXPECT_EQ(to_text(compiled(layer("f32", 8, 64), FusionLevel::Auto).plan()),
            R"(0 contract: matmul + add
1 attention: slice + slice + slice + reshape + transpose + reshape + reshape + transpose + )"
            "transpose + attention\n2 contract: matmul + slice + slice + silu + mul\n");
  // Attention is left in primitives in strict; slices are read in place all the same.
  EXPECT_EQ(to_text(compiled(layer("f32", 8, 64), FusionLevel::Auto, true).plan()),
            R"(0 contract: matmul + add
1 contract: slice + slice + reshape + transpose + reshape + transpose + matmul + mul
2 row: softmax
3 contract: slice + reshape + transpose + matmul
4 contract: matmul + slice + slice + silu + mul
)");
}

TEST(MergedPlan, NotAtLevelNone) {
  const auto slices = [](FusionLevel level) {
    return to_text(compiled(layer("f32", 8, 64), level).plan()).find("slice") != std::string::npos;
  };
  EXPECT_FALSE(slices(FusionLevel::None));
  EXPECT_TRUE(slices(FusionLevel::Ops));
}

// A product that rounds to -0.0, with a bias for its sibling alone.
TEST(MergedResults, MinusZeroKeepsItsSign) {
  const std::string text = R"(graph g(%x: f32[s, 1]) {
    %wg = constant {value = f32[1, 2] {1e-30, 1.0}}
    %wu = constant {value = f32[1, 2] {1.0, 2.0}}
    %c = constant {value = f32[2] {0.5, 0.5}}
    %g = matmul(%x, %wg)
    %u = matmul(%x, %wu)
    %b = add(%u, %c)
    %r = reciprocal(%g)
    %y = mul(%r, %b)
    return %y as "y"
  })";
  Executable fused = compiled(text, FusionLevel::Auto);
  EXPECT_EQ(fused.plan().kernels.size(), 1U);
  Tensor x = Tensor::allocate(DType::F32, {1, 1}).value();
  x.set_double(0, -1e-30);
  const auto results = fused.run(std::vector{x}).value();
  EXPECT_EQ(results[0].get_double(0), -std::numeric_limits<double>::infinity());
}

TEST(MergedResults, EveryWidthOfVectors) {
  const std::string text = layer("f32", 5, 33);
  const Graph graph = parse_graph(text).value();
  for (const char* target : {"host-generic", "host-avx2", "host-avx512"}) {
    CompileOptions options;
    options.target = target;
    auto result = compile(parse_graph(text).value(), options);
    if (!result) continue;  // this processor does not have it
    const std::vector<Tensor> inputs = {random_tensor(graph.inputs()[0]->type(), {2, 19, 12}, 3)};
    const auto exact = evaluate(graph, inputs, {.in_f64 = true, .observer = {}}).value();
    const auto actual = result->executable.run(inputs).value();
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const Comparison same = compare_strictly(actual[i], exact[i], default_tolerance(DType::F32));
      EXPECT_TRUE(same.equal) << target << ": " << same.message;
    }
  }
}

}  // namespace
}  // namespace opweld::testing
