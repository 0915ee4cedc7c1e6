// Bodies of composites that were made before are those that would be made anew.
#include "tile/expansions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/builder.h"
#include "tile/lower.h"

namespace opweld::tile {
namespace {

Graph group_of(const std::string& text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().message;
  return graph ? std::move(*graph) : Graph();
}

// Composites that differ in operator, attribute, type and absent operands, twice each, one reading
// the other; the scale is the norm's own operand once.
const std::string kNorms = R"(graph g(%x: f32[n, 48], %h: f16[n, 48], %w: f32[48], %v: f16[48]) {
  %a = rms_norm(%x, %w) {axis = -1, epsilon = 1e-05}
  %b = rms_norm(%a, %w) {axis = -1, epsilon = 1e-05}
  %c = rms_norm(%b, %w) {axis = -1, epsilon = 1e-03}
  %d = rms_norm(%c) {axis = -1, epsilon = 1e-05}
  %e = layer_norm(%d, %w, %w) {axis = -1}
  %f = layer_norm(%e, _, %w) {axis = -1}
  %g = layer_norm(%f, %w) {axis = -1}
  %s = softmax(%g) {axis = 1}
  %t = log_softmax(%s) {axis = 1}
  %u = softmax(%t) {axis = 1}
  %i = rms_norm(%h, %v) {axis = -1, epsilon = 1e-05}
  %j = rms_norm(%i, %w) {axis = -1, epsilon = 1e-05}
  return %u as "y", %j as "z"
})";

TEST(Expansions, MakeTheNodesThatBodiesMake) {
  Expansions expansions;
  for (const char* const when : {"first", "again"}) {
    SCOPED_TRACE(when);
    Graph anew = group_of(kNorms);
    ASSERT_TRUE(expand_composites(anew));
    const auto remembered = expansions.expanded(group_of(kNorms));
    ASSERT_TRUE(remembered);
    ASSERT_TRUE(opweld::verify(*remembered));
    EXPECT_EQ(to_text(*remembered), to_text(anew));
    EXPECT_THAT(to_text(anew), ::testing::Not(::testing::HasSubstr("_norm")));
  }
}

TEST(Expansions, KeepWhatNodesAreCalled) {
  Expansions expansions;
  for (const char* const name : {"first", "second"}) {
    Graph group = group_of(R"(graph g(%x: f32[n, 8]) {
      %y = softmax(%x)
      return %y as "y"
    })");
    group.nodes().front()->set_source({name, "Softmax", "layers.0"});
    const auto expanded = expansions.expanded(group);
    ASSERT_TRUE(expanded);
    EXPECT_GT(expanded->num_nodes(), 1U);
    for (const auto& node : expanded->nodes()) EXPECT_EQ(node->source().name, name);
  }
}

// What a body's values are known to be follows from what its operands are.
TEST(Expansions, KeepWhatIsKnownOfContents) {
  Expansions expansions;
  for (const int first : {3, 5}) {
    const std::string text = fmt::format(R"(graph g() {{
      %first = constant {{value = i64[] {{{}}}}}
      %step = constant {{value = i64[] {{1}}}}
      %y = range(%first, %step) {{length = <2>}}
      return %y as "y"
    }})",
                                         first);
    const auto expanded = expansions.expanded(group_of(text));
    ASSERT_TRUE(expanded);
    const auto& contents = expanded->outputs().front().value->contents();
    ASSERT_TRUE(contents);
    EXPECT_THAT(*contents, ::testing::ElementsAre(Dim(first), Dim(first + 1)));
  }
}

}  // namespace
}  // namespace opweld::tile
