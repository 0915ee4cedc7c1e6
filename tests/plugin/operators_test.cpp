// Custom operators in graphs: what they compute by the reference, what they infer, and what goes
// wrong with those that are faulty.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "ops/register.h"
#include "ops/run_op.h"
#include "plugin/plugins.h"

namespace opweld {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Operators : public ::testing::Test {
 protected:
  void SetUp() override {
    sample();
    faulty();
    loaded(OPWELD_EXAMPLE_PLUGIN);
  }
};

TEST_F(Operators, OfAnExpressionBroadcastAndHaveDefaults) {
  const std::string text =
      "graph (%x: f32[2, 2], %o: f32[2]) { %y = test.sample.Blend(%x, %o) {weight = 0.5, power = 3}"
      " return %y }";
  // (x + o^3) / 2
  EXPECT_THAT(values_of(evaluated(text, {floats({2, 2}, {1, 2, 3, 4}), floats({2}, {2, 3})})[0]),
              ElementsAre(4.5, 14.5, 5.5, 15.5));
  EXPECT_THAT(values_of(evaluated("graph (%x: f64[2]) { %y = test.sample.Blend(%x) return %y }",
                                  {make_tensor(DType::F64, {2}, {1, 5})})[0]),
              ElementsAre(1, 4));  // 0.75 x + 0.25
}

TEST_F(Operators, OfAnExpressionInferTypesForUnknownLengths) {
  const Graph graph = parsed(
      "graph (%x: f16[b, 1, s], %o: f16[t, s]) { %y = test.sample.Above(%x, %o) return %y }");
  EXPECT_EQ(to_string(graph.outputs()[0].value->type()), "bool[b, t, s]");
}

TEST_F(Operators, IntegersWrapToTheirWidth) {
  for (const DType dtype : {DType::I8, DType::I16, DType::U8, DType::I32, DType::I64}) {
    const std::string type(to_string(dtype));
    const Tensor result =
        evaluated("graph (%x: " + type + "[2]) { %y = test.sample.Square(%x) return %y }",
                  {make_tensor(dtype, {2}, {-3, 100})})[0];
    const Tensor expected = make_tensor(dtype, {2}, {dtype == DType::U8 ? 253. * 253 : 9., 10000});
    EXPECT_TRUE(identical(result, expected)) << type;
  }
}

TEST_F(Operators, OfABodyHaveAttributesSizesAndTypesFilledIn) {
  for (const char* type : {"f32", "f16", "bf16", "f64"}) {
    const std::string text = std::string("graph (%x: ") + type +
                             "[r, c]) { %a, %b = test.sample.Split(%x) {scale = 0.5} "
                             "return %a as \"a\", %b as \"b\" }";
    const auto results =
        evaluated(text, {make_tensor(*parse_dtype(type), {2, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10})});
    ASSERT_EQ(results.size(), 2U);
    EXPECT_EQ(results[0].sizes(), (Sizes{2, 2}));
    EXPECT_THAT(values_of(results[0]), ElementsAre(0.5, 1, 3, 3.5));
    EXPECT_EQ(results[1].sizes(), (Sizes{2, 3}));
    EXPECT_THAT(values_of(results[1]), ElementsAre(3, 4, 5, 8, 9, 10));
  }
}

TEST_F(Operators, OfTheExample) {
  const auto capped =
      evaluated("graph (%x: f64[3]) { %y = com.example.SoftCap(%x) {limit = 2} return %y }",
                {make_tensor(DType::F64, {3}, {-1, 0, 100})});
  EXPECT_THAT(values_of(capped[0]), ElementsAre(::testing::DoubleEq(2 * std::tanh(-0.5)), 0, 2));
  const auto normed = evaluated(
      "graph (%x: f64[2, 2], %g: f64[1]) { %y = com.example.ScaleNorm(%x, %g) return %y }",
      {make_tensor(DType::F64, {2, 2}, {3, 4, 0, 0}), make_tensor(DType::F64, {1}, {10})});
  EXPECT_THAT(values_of(normed[0]), ElementsAre(6, 8, 0, 0));
  const auto sorted = evaluated("graph (%x: f32[2, 3]) { %y = com.example.SortRows(%x) return %y }",
                                {floats({2, 3}, {3, 1, 2, NAN, -1, -2})});
  EXPECT_THAT(values_of(sorted[0]),
              ElementsAre(1, 2, 3, -2, -1, ::testing::NanSensitiveDoubleEq(NAN)));
}

TEST_F(Operators, OpaqueOnesSeeAllKindsOfAttributes) {
  // 3 + 0.5 + |"four"| + 1 + 2 + 0.5 + 0.5, and the last of the list is a size.
  const auto with_defaults = evaluated(
      "graph (%x: f32[1]) { %y = test.sample.Attributes(%x) return %y }", {floats({1}, {0})});
  EXPECT_EQ(with_defaults[0].sizes(), (Sizes{1, 2}));
  EXPECT_THAT(values_of(with_defaults[0]), ElementsAre(11.5, 11.5));
  const auto given = evaluated(
      "graph (%x: f16[1]) { %y = test.sample.Attributes(%x) {a = -1, b = 2, text = \"\", list = "
      "[1], reals = reals []} return %y }",
      {make_tensor(DType::F16, {1}, {0})});
  EXPECT_THAT(values_of(given[0]), ElementsAre(2));
}

TEST_F(Operators, OpaqueOnesAreVariadicAndAskForShapes) {
  const std::string two =
      "graph (%a: f32[2], %b: f32[0], %c: f32[1]) { %y = test.sample.Join(%a, "
      "%b, %c) return %y }";
  EXPECT_EQ(to_string(parsed(two).outputs()[0].value->type()), "f32[3]");
  EXPECT_THAT(
      values_of(evaluated(two, {floats({2}, {1, 2}), floats({0}, {}), floats({1}, {3})})[0]),
      ElementsAre(1, 2, 3));
  EXPECT_THAT(refusal("graph (%a: f32[n]) { %y = test.sample.Join(%a) return %y }"),
              AllOf(HasSubstr("test.sample.Join"), HasSubstr("Give it a formula"),
                    HasSubstr("plugin 'sample'")));
  EXPECT_THAT(refusal("graph (%a: f32[2, 2]) { %y = test.sample.Join(%a) return %y }"),
              HasSubstr("every operand has rank 1"));
}

TEST_F(Operators, ZeroSizes) {
  for (const char* op : {"com.example.SoftCap", "com.example.SortRows", "test.sample.Honest"}) {
    for (const Sizes& sizes : {Sizes{0}, Sizes{3, 0}, Sizes{0, 3}}) {
      const auto results = run_op(op, {zeros(DType::F32, sizes)}, {});
      ASSERT_TRUE(results) << op << results.error().message;
      EXPECT_EQ((*results)[0].sizes(), sizes) << op;
    }
  }
}

TEST_F(Operators, SchemasAreChecked) {
  EXPECT_THAT(refusal("graph (%x: i32[2]) { %y = com.example.SoftCap(%x) return %y }"),
              HasSubstr("operand 'x' cannot be i32"));
  EXPECT_THAT(
      refusal("graph (%x: f32[2], %o: f16[2]) { %y = test.sample.Blend(%x, %o) return %y }"),
      HasSubstr("must have the same dtype"));
  EXPECT_THAT(refusal("graph (%x: f32[2]) { %y = com.example.SoftCap(%x) {limits = 1} return %y }"),
              HasSubstr("has no attribute 'limits'; it has limit"));
  EXPECT_THAT(
      refusal("graph (%x: f32[2]) { %y = com.example.SoftCap(%x) {limit = nan} return %y }"),
      AllOf(HasSubstr("attribute 'limit' is NaN"), HasSubstr("plugin 'example'")));
  EXPECT_THAT(refusal("graph (%x: f32[2, 2]) { %y, %z = test.sample.Split(%x) return %y }"),
              HasSubstr("attribute 'scale' (a real number) is missing"));
  EXPECT_THAT(refusal("graph (%x: f32[2]) { %y = com.example.SoftCap() return %y }"),
              HasSubstr("operand 'x' is missing"));
  EXPECT_THAT(refusal("graph (%x: f32[2]) { %y = com.example.SoftCaps(%x) return %y }"),
              HasSubstr("did you mean 'com.example.SoftCap'?"));
}

std::string faulty_graph(const std::string& op, const std::string& type = "f32[4]",
                         const std::string& attributes = "") {
  return "graph (%x: " + type + ") { %y = test.faulty." + op + "(%x) " + attributes +
         " return %y }";
}

TEST_F(Operators, FaultyDeclarationsAreRefusedWithTheModel) {
  const std::pair<const char*, const char*> kFaults[] = {
      {"BadSyntax", "its body: line 2, column 1: expected ','"},
      {"UnknownOperator", "its body: line 1, column 6: unknown operator 'frobnicate'"},
      {"UnknownValue", "its body: line 1, column 14: 'z' is not defined here"},
      {"NoReturn", "its body: line 1, column 17: expected a statement, or 'return'"},
      {"TwoReturned", "its body: it returns 2 values, and 1 results are declared"},
      {"OtherType", "its body gives result 'y' the type f32[4], and i64 is declared"},
      {"OtherShape", "the shape rule lies: result 'y' is [5] by its formula, and [4] by its body"},
      {"OfItself", "its body is defined in terms of itself"},
      {"TooSmall", "the shape rule lies: result 'y' is [4] by its formula, and [3] by shapes()"},
      {"TooLarge", "the shape rule lies: result 'y' is [4] by its formula, and [5] by shapes()"},
      {"OtherRank", "the shape rule lies: result 'y' is [4] by its formula, and [4, 1] by shapes"},
      {"RankBeyond", "shapes() gives result 'y' the rank 33, which is not in [0, 32]"},
      {"NegativeSize", "shapes() gives result 'y' the sizes [-5], which no tensor has"},
      {"ShapesThrows", "shapes() threw an exception: no shape today"},
      {"ShapesFails", "x is too odd"},
      {"DividedByZero", "the shape of result 'y': line 1, column 7: the size overflows"},
      {"Negative", "negative size"},
      {"NoSuchAxis", "the shape of result 'y': line 1, column 3: 'x' has 1 sizes"},
  };
  for (const auto& [op, says] : kFaults) {
    EXPECT_THAT(refusal(faulty_graph(op)),
                AllOf(HasSubstr(says), HasSubstr("test.faulty." + std::string(op))));
    if (std::string_view(op) == "Negative") continue;  // which is for all operators alike
    EXPECT_THAT(refusal(faulty_graph(op)),
                HasSubstr("(plugin 'faulty', " + plugin_path("faulty") + ")"));
  }
}

TEST_F(Operators, FaultyCodeFailsTheRun) {
  const std::pair<const char*, const char*> kFaults[] = {
      {"Says", "the moon is full"},
      {"Mute", "compute() failed with code 17 and no message"},
      {"Throws", "compute() threw an exception: out of paint"},
      {"ThrowsAnything", "compute() threw an exception"},
      {"WritesBehind", "compute() wrote beside result 'y', which has 4 elements, 16 bytes"},
      {"WritesBefore", "compute() wrote beside result 'y'"},
      {"WritesTwice", "compute() wrote beside result 'y'"},
  };
  for (const auto& [op, says] : kFaults) {
    EXPECT_THAT(failure(faulty_graph(op), {floats({4}, {1, 2, 3, 4})}),
                AllOf(HasSubstr(says), HasSubstr("test.faulty." + std::string(op)),
                      HasSubstr("(plugin 'faulty', ")));
  }
  // Sizes that nobody knew before the run.
  for (const char* op : {"TooSmall", "TooLarge", "OtherRank"}) {
    EXPECT_THAT(failure(faulty_graph(op, "f32[n]"), {floats({4}, {1, 2, 3, 4})}),
                HasSubstr("the shape rule lies: result 'y' is [4] by what is declared, and"));
  }
  // Far beside a large result, too.
  EXPECT_THAT(failure(faulty_graph("WritesTwice", "f32[n]"), {zeros(DType::F32, {100000})}),
              HasSubstr("compute() wrote beside result 'y'"));
}

TEST_F(Operators, RunInManyThreadsAtOnce) {
  const Graph graph = parsed(
      "graph (%x: f32[n]) { %a = com.example.SortRows(%x) %y = test.sample.Honest(%a) return %y }");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&graph] {
      const Tensor inputs[] = {floats({3}, {3, 1, 2})};
      for (int i = 0; i < 200; ++i) {
        const auto results = evaluate(graph, inputs);
        ASSERT_TRUE(results);
        ASSERT_THAT(values_of((*results)[0]), ElementsAre(3, 5, 7));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Operators, TellWhatWouldMakeThemFuse) {
  EXPECT_THAT(what_to_declare(*find_op("com.example.SortRows")),
              AllOf(HasSubstr("'com.example.SortRows' of plugin 'example'"),
                    HasSubstr("OpweldOp.expression"), HasSubstr("OpweldOp.body")));
  EXPECT_EQ(what_to_declare(*find_op("com.example.SoftCap")), "");
  EXPECT_EQ(what_to_declare(*find_op("top_k")), "");
}

TEST_F(Operators, DeclarationsTellMeaningsApart) {
  // As caches of compiled code need it: equal for what means the same only.
  const auto declared = [](const char* op) { return find_op(op)->origin->declaration; };
  EXPECT_NE(declared("test.sample.Honest"), declared("test.sample.Liar"));
  EXPECT_THAT(declared("com.example.SoftCap"), HasSubstr("= limit * tanh(x / limit)"));
  EXPECT_THAT(declared("com.example.ScaleNorm"), HasSubstr("reduce_l2(%x)"));
  const Graph graph = parsed(
      "graph (%x: f32[n]) { %a = test.sample.Liar(%x) %b = neg(%a) %c = test.sample.Honest(%b) "
      "%y = test.sample.Liar(%c) return %y }");
  EXPECT_EQ(declarations_in(graph),
            declared("test.sample.Honest") + "\n" + declared("test.sample.Liar") + "\n");
  EXPECT_EQ(declarations_in(parsed("graph (%x: f32[n]) { %y = neg(%x) return %y }")), "");
}

}  // namespace
}  // namespace opweld
