#include "rewrite/fold_constants.h"

#include <gtest/gtest.h>

#include "ops/builder.h"
#include "ops/reference.h"
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

// Folds, and holds the constant that is left to the value that evaluation gave before.
void expect_folded(const std::string& body) {
  SCOPED_TRACE(body);
  Graph graph = parse_graph("graph g() {" + body + "\n return %y as \"y\" }").value();
  const auto before = evaluate(graph, {}).value();
  ASSERT_TRUE(fold_constants(graph));
  const Status sound = verify(graph);
  ASSERT_TRUE(sound) << sound.error().message;
  const Node* left = graph.outputs()[0].value->producer();
  ASSERT_EQ(left->op(), "constant");
  EXPECT_TRUE(identical(before[0], left->attributes().tensor("value")));
}

// Evaluations look at every operand of the schema, those left out at the end included.
TEST(FoldConstants, FoldsOperatorsWhoseLastOperandsAreAbsent) {
  expect_folded(
      "%x = constant {value = f32[3] {-5.0, 0.5, 5.0}}\n"
      "%l = constant {value = f32[] {-1.0}}\n %y = clip(%x, %l)");
  expect_folded(
      "%x = constant {value = f32[2] {1.0, 2.0}}\n"
      "%y = pad(%x) {before = <1>, after = <1>, mode = \"constant\"}");
  expect_folded(
      "%q = constant {value = f32[1, 1, 2, 3] random 1}\n"
      "%k = constant {value = f32[1, 1, 4, 3] random 2}\n"
      "%y = attention(%q, %k, %k) {scale = 0.5}");
  expect_folded("%x = constant {value = f32[2, 3] random 3}\n %y = layer_norm(%x) {axis = -1}");
}

// Large ones, as weights are, and small ones; the last two axes swapped, and others.
TEST(FoldConstants, FoldsTransposes) {
  for (const char* type : {"f32", "f16"}) {
    for (const char* sizes : {"3, 50, 20", "3, 500, 33"}) {
      for (const char* permutation : {"0, 2, 1", "2, 1, 0", "1, 0, 2"}) {
        expect_folded(
            fmt::format("%x = constant {{value = {}[{}] random 1}}\n"
                        "%y = transpose(%x) {{permutation = [{}]}}",
                        type, sizes, permutation));
      }
    }
  }
}

}  // namespace
}  // namespace opweld
