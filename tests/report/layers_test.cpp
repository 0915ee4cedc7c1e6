#include "report/layers.h"

#include <gmock/gmock.h>

#include "explained.h"

namespace opweld::testing {
namespace {

using ::testing::ElementsAre;

// `layers` times gelu(x w), each of its own scope if `named`; the widths are those of the weights.
std::string model(const std::vector<int>& widths, bool named = true) {
  std::string text = "graph g(%x0: f32[n, 16]) {\n";
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const std::string scope =
        named ? fmt::format(R"( @"/layers.{0}/op" scope "layers.{0}")", i) : std::string();
    text += fmt::format(
        "%v{0} = constant {{value = f32[16, {2}] random {0}}}\n"
        "%w{0} = constant {{value = f32[{2}, 16] random {0}}}\n"
        "%a{0} = matmul(%x{0}, %v{0}){3}\n%b{0} = gelu(%a{0}){3}\n"
        "%c{0} = matmul(%b{0}, %w{0}){3}\n%x{1} = tanh(%c{0}){3}\n",
        i, i + 1, widths[i], scope);
  }
  return text + fmt::format(
                    "%v, %i = top_k(%x{}) {{axis = 1, k = <8>, largest = 0, sorted = 1}}\n"
                    "return %v as \"v\"\n}}",
                    widths.size());
}

std::vector<std::string> shown(const Explained& explained) {
  std::vector<std::string> lines;
  const auto all = equal_layers(explained.plan(), explained.sizes());
  for (const EqualLayers& layers : all.value()) {
    lines.push_back(fmt::format("{}: {}", to_string(layers), layers.traffic.kernels));
  }
  return lines;
}

CompileOptions at(FusionLevel level) {
  CompileOptions options;
  options.level = level;
  return options;
}

TEST(Layers, EqualOnesAreShownOnce) {
  EXPECT_THAT(shown(Explained(model({24, 24, 24, 24}), at(FusionLevel::None))),
              ElementsAre("layers.0 .. layers.3 (4 equal): 4", "(no layer): 1"));
  EXPECT_THAT(shown(Explained(model({24, 24, 40, 24}), at(FusionLevel::None))),
              ElementsAre("layers.0 .. layers.1 (2 equal): 4", "layers.2: 4", "layers.3: 4",
                          "(no layer): 1"));
}

TEST(Layers, AreFoundByStructureWhereNamesTellOfNone) {
  EXPECT_THAT(shown(Explained(model({24, 24, 24}, false), at(FusionLevel::None))),
              ElementsAre("block 0 .. block 2 (3 equal): 4", "(no layer): 1"));
}

TEST(Layers, TheirKernelsAndBytesAddUpToThePlans) {
  for (const FusionLevel level : {FusionLevel::None, FusionLevel::Ops, FusionLevel::Auto}) {
    const Explained explained(model({24, 24, 40, 24}), at(level));
    Traffic sum;
    const auto all = equal_layers(explained.plan(), explained.sizes());
    for (const EqualLayers& layers : all.value()) {
      sum.kernels += layers.count * layers.traffic.kernels;
      sum.read_bytes += layers.count * layers.traffic.read_bytes;
      sum.written_bytes += layers.count * layers.traffic.written_bytes;
    }
    EXPECT_EQ(sum, total_traffic(explained.plan(), explained.sizes()).value());
  }
}

// A kernel that reaches over into the next layer counts for the one that it begins in.
TEST(Layers, AKernelCountsForTheLayerItBeginsIn) {
  const Explained explained(R"(graph g(%x: f32[n]) {
    %a = exp(%x) @"/layers.0/Exp" scope "layers.0"
    %b = neg(%a) @"/layers.1/Neg" scope "layers.1"
    return %b as "y"
  })");
  ASSERT_EQ(explained.plan().kernels.size(), 1U);
  EXPECT_EQ(explained.plan().kernels[0].scope, "");
  EXPECT_THAT(shown(explained), ElementsAre("layers.0: 1"));
}

// What several kernels compute again says nothing of where one of them is, as a mask that the first
// layer makes and all read.
TEST(Layers, WhatIsComputedAgainCountsForNoLayer) {
  const Explained explained(R"(graph g(%x: f16[2048, 1024]) {
    %p = cast(%x) {to = f32} @"/layers.0/Cast" scope "layers.0"
    %a = reduce_max(%p) {axes = [1], keepdims = 0} @"/layers.0/Max" scope "layers.0"
    %b = reduce_sum(%p) {axes = [0], keepdims = 0} @"/layers.1/Sum" scope "layers.1"
    return %a as "a", %b as "b"
  })");
  ASSERT_EQ(explained.plan().kernels.size(), 2U);
  EXPECT_EQ(explained.plan().kernels[0].scope, "layers.0");
  EXPECT_EQ(explained.plan().kernels[1].scope, "layers.1");
  EXPECT_THAT(shown(explained), ElementsAre("layers.0: 1", "layers.1: 1"));
}

// A kernel that reaches over into the next layer counts for the one that it begins in. So the first
// layer, before which another operator stands, and the last, after which none does, may differ in
// what is counted for them; those between do not, whatever rows decide.
TEST(Layers, BetweenTheFirstAndTheLastAreOneInEveryPlan) {
  constexpr int kLayers = 6;
  std::string text =
      "graph g(%x: f32[n, 192]) {\n%g = constant {value = f32[192] random 9}\n"
      "%x0 = rms_norm(%x, %g) {axis = -1, epsilon = 1e-05}\n";
  for (int i = 0; i < kLayers; ++i) {
    text += fmt::format(R"(
      %v{0} = constant {{value = f32[192, 256] random {0}}}
      %w{0} = constant {{value = f32[256, 192] random {0}}}
      %a{0} = matmul(%x{0}, %v{0}) @"/layers.{0}/op" scope "layers.{0}"
      %b{0} = gelu(%a{0}) @"/layers.{0}/op" scope "layers.{0}"
      %c{0} = matmul(%b{0}, %w{0}) @"/layers.{0}/op" scope "layers.{0}"
      %d{0} = add(%c{0}, %x{0}) @"/layers.{0}/op" scope "layers.{0}"
      %x{1} = rms_norm(%d{0}, %g) {{axis = -1, epsilon = 1e-05}} @"/layers.{0}/op" scope "layers.{0}"
    )",
                        i, i + 1);
  }
  text += fmt::format("return %x{} as \"y\"\n}}", kLayers);
  for (const FusionLevel level : {FusionLevel::Ops, FusionLevel::Auto}) {
    const Compiled compiled = compile(parse_graph(text).value(), at(level)).value();
    const auto versions = compiled.executable.versions();
    EXPECT_GT(versions.size(), 1U) << "rows decide nothing here";
    EXPECT_GT(versions.back().plan.kernels.size(), 1U);
    for (const PlanVersion& version : versions) {
      if (version.plan.kernels.size() == 1) continue;  // it counts for the first
      const auto ranges = equal_layers(version.plan, {{"n", 64}}).value();
      const auto between = std::ranges::find_if(
          ranges, [](const EqualLayers& each) { return each.count >= kLayers - 2; });
      ASSERT_NE(between, ranges.end()) << to_text(version.plan);
      EXPECT_THAT(between->first, ::testing::AnyOf("layers.0", "layers.1"));
    }
  }
}

}  // namespace
}  // namespace opweld::testing
