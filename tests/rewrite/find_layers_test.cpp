// Layers that only the structure tells of.
#include "rewrite/find_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/builder.h"

namespace opweld {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// The scope of each operator.
std::vector<std::string> scopes_of(const std::string& text) {
  Graph graph = parse_graph(text).value();
  EXPECT_TRUE(find_layers(graph));
  std::vector<std::string> scopes;
  for (const auto& node : graph.nodes()) {
    if (node->op() != "constant") scopes.push_back(node->source().scope);
  }
  return scopes;
}

// x -> `layers` times gelu(x w + b) + x, with an exp before and a softmax behind.
std::string residual_model(int layers, const std::string& name = "") {
  std::string text = R"(graph g(%x: f32[n, 8]) {
    %x0 = exp(%x)
)";
  for (int i = 0; i < layers; ++i) {
    text += fmt::format(R"(
    %w{0} = constant {{value = f32[8, 8] random {0}}}
    %b{0} = constant {{value = f32[8] random {0}}}
    %m{0} = matmul(%x{0}, %w{0}) {2}
    %a{0} = add(%m{0}, %b{0})
    %g{0} = gelu(%a{0})
    %x{1} = add(%g{0}, %x{0})
)",
                        i, i + 1, name);
  }
  return text + fmt::format("%y = softmax(%x{}) {{axis = -1}}\nreturn %y as \"y\"\n}}", layers);
}

TEST(FindLayers, RepeatedBlocksAreLayers) {
  EXPECT_THAT(scopes_of(residual_model(3)),
              ElementsAre("", "block 0", "block 0", "block 0", "block 0", "block 1", "block 1",
                          "block 1", "block 1", "block 2", "block 2", "block 2", "block 2", ""));
}

TEST(FindLayers, NamesThatTellOfLayersAreBelieved) {
  EXPECT_THAT(scopes_of(residual_model(3, R"(@"m" scope "layers.7")")),
              ::testing::Not(::testing::Contains("block 0")));
}

TEST(FindLayers, OneOfAKindIsNone) {
  EXPECT_THAT(scopes_of(residual_model(1)), Each(""));
  EXPECT_THAT(scopes_of("graph g(%x: f32[n]) { return %x as \"y\" }"), ElementsAre());
}

TEST(FindLayers, BlocksWithoutAProductAreNone) {
  std::string text = "graph g(%x0: f32[n]) {\n";
  for (int i = 0; i < 4; ++i) {
    text += fmt::format(
        "%e{0} = exp(%x{0})\n%n{0} = neg(%e{0})\n%t{0} = tanh(%n{0})\n"
        "%x{1} = abs(%t{0})\n",
        i, i + 1);
  }
  EXPECT_THAT(scopes_of(text + "return %x4 as \"y\"\n}"), Each(""));
}

TEST(FindLayers, LayersDifferInTheirWeightsAlone) {
  // Of another width, and with another epsilon.
  const std::string text = R"(graph g(%x: f32[n, 8]) {
    %v = constant {value = f32[8, 8] random 1}
    %w = constant {value = f32[8, 8] random 2}
    %s = constant {value = f32[8] splat 1.0}
    %a = matmul(%x, %v)
    %b = gelu(%a)
    %c = neg(%b)
    %d = rms_norm(%c, %s) {axis = -1, epsilon = 1e-05}
    %e = matmul(%d, %w)
    %f = gelu(%e)
    %g = neg(%f)
    %y = rms_norm(%g, %s) {axis = -1, epsilon = EPSILON}
    return %y as "y"
  })";
  const auto with = [&](const std::string& epsilon) {
    std::string changed = text;
    return changed.replace(changed.find("EPSILON"), 7, epsilon);
  };
  EXPECT_THAT(scopes_of(with("1e-05")), ElementsAre("block 0", "block 0", "block 0", "block 0",
                                                    "block 1", "block 1", "block 1", "block 1"));
  EXPECT_THAT(scopes_of(with("1e-06")), Each(""));
}

}  // namespace
}  // namespace opweld
