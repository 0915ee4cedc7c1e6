#include "rewrite/fold_constants.h"

#include <gtest/gtest.h>

#include "ops/builder.h"
#include "rewrite/dce.h"

namespace opweld {
namespace {

// What is left of a body that ends in %y, without types.
std::string folded(const std::string& body) {
  Graph graph =
      parse_graph("graph g(%x: f32[b, 4, s, 16]) {\n" + body + "\n return %y as \"y\"\n}").value();
  EXPECT_TRUE(fold_constants(graph));
  EXPECT_TRUE(eliminate_dead_code(graph));
  const Status sound = verify(graph);
  EXPECT_TRUE(sound) << (sound ? "" : sound.error().message);
  const std::string text = to_text(graph, {.types = false, .sources = false});
  return text.substr(text.find("%y = "));
}

TEST(FoldConstants, EvaluatesWhatReadsConstantsAlone) {
  EXPECT_EQ(folded("%a = constant {value = f32[] {2.0}}\n %b = constant {value = f32[] {3.0}}\n"
                   "%y = add(%a, %b)"),
            "%y = constant {value = f32[] {5.0}}\n  return %y as \"y\"\n}\n");
}

TEST(FoldConstants, EvaluatesWhatShapeRulesKnow) {
  // As exporters find the scale of attention: 1 / sqrt(size of the last axis).
  EXPECT_EQ(folded("%shape = sizes {values = <b, 4, s, 16>}\n %i = constant {value = i64[] {3}}\n"
                   "%size = gather(%shape, %i) {axis = 0}\n %f = cast(%size) {to = f32}\n"
                   "%r = sqrt(%f)\n %y = reciprocal(%r)"),
            "%y = constant {value = f32[] {0.25}}\n  return %y as \"y\"\n}\n");
}

TEST(FoldConstants, LeavesSizesThatAreNotKnown) {
  EXPECT_EQ(folded("%shape = sizes {values = <b, 4, s, 16>}\n %i = constant {value = i64[] {2}}\n"
                   "%y = gather(%shape, %i) {axis = 0}")
                .find("constant"),
            std::string::npos);
}

TEST(FoldConstants, LeavesAnExpandedScalarAComputation) {
  EXPECT_NE(folded("%a = constant {value = f32[] {2.0}}\n"
                   "%y = expand(%a) {shape = <1024, 1024>}")
                .find("expand"),
            std::string::npos);
}

}  // namespace
}  // namespace opweld
