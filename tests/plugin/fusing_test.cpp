// Custom operators in compiled models: fused against unfused against f64, and what is said of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "compile.h"
#include "fusion/plan_record.h"
#include "graph/text.h"
#include "ops/run_op.h"
#include "plugin/plugins.h"
#include "report/account.h"
#include "runtime/compare.h"

namespace opweld {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr DType kFloatTypes[] = {DType::F32, DType::F16, DType::BF16, DType::F64};
constexpr std::int64_t kLengths[] = {0, 1, 3, 7, 8, 15, 16, 17, 31, 33, 640};

class Fusing : public ::testing::Test {
 protected:
  void SetUp() override {
    sample();
    faulty();
    loaded(OPWELD_EXAMPLE_PLUGIN);
  }
};

Compiled compiled(const Graph& graph, FusionLevel level, bool strict = false) {
  CompileOptions options;
  options.level = level;
  options.threads = 2;
  options.strict = strict;
  options.verify_passes = true;
  options.history = true;
  auto made = compile(graph.clone(), options);
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
  return std::move(*made);
}

std::vector<Tensor> run(Compiled& compiled, const std::vector<Tensor>& inputs) {
  auto results = compiled.executable.run(inputs);
  EXPECT_TRUE(results.has_value()) << (results ? "" : results.error().message);
  return results ? std::move(*results) : std::vector<Tensor>();
}

// Normal numbers, and the special ones now and then.
Tensor numbers(DType dtype, Sizes sizes, unsigned seed, bool special) {
  Tensor tensor = zeros(dtype, std::move(sizes));
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0, 3);
  const double specials[] = {std::nan(""), HUGE_VAL, -HUGE_VAL, 0.0, -0.0, 60000, -60000};
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    const bool odd = special && generator() % 5 == 0;
    tensor.set_double(i, odd ? specials[generator() % std::size(specials)] : normal(generator));
  }
  return tensor;
}

// Halves round at every kernel, so that the tolerance, which is that of one, holds for a chain of
// several only where they are one.
enum class Levels { All, Fused };

// Within the tolerance of the reference in f64, and in strict numerics the same bits at all levels.
void expect_right(const std::string& text, const std::vector<Tensor>& inputs,
                  Levels levels = Levels::All) {
  const Graph graph = parsed(text);
  ReferenceOptions in_f64;
  in_f64.in_f64 = true;
  const auto reference = evaluate(graph, inputs, in_f64);
  ASSERT_TRUE(reference) << reference.error().message;
  for (const FusionLevel level : {FusionLevel::None, FusionLevel::Ops, FusionLevel::Auto}) {
    if (levels == Levels::Fused && level != FusionLevel::Auto) continue;
    Compiled program = compiled(graph, level);
    const auto results = run(program, inputs);
    ASSERT_EQ(results.size(), reference->size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Comparison comparison =
          compare(results[i], (*reference)[i], default_tolerance(results[i].dtype()));
      EXPECT_TRUE(comparison.equal) << to_string(level) << ": " << comparison.message;
    }
  }
  Compiled unfused = compiled(graph, FusionLevel::None, true);
  Compiled fused = compiled(graph, FusionLevel::Auto, true);
  const auto apart = run(unfused, inputs);
  const auto together = run(fused, inputs);
  for (std::size_t i = 0; i < apart.size(); ++i) EXPECT_TRUE(identical(apart[i], together[i]));
}

TEST_F(Fusing, AnExpressionIsWeldedToItsNeighbours) {
  const Graph graph = parsed(
      "graph (%x: f32[n], %b: f32[n]) {\n"
      "%s = add(%x, %b) @\"/add\" op \"Add\"\n"
      "%c = com.example.SoftCap(%s) {limit = 2} @\"/cap\" op \"SoftCap\"\n"
      "%y = mul(%c, %x) @\"/mul\" op \"Mul\"\n"
      "return %y }");
  const Compiled program = compiled(graph, FusionLevel::Auto);
  const FusionPlan& plan = program.executable.versions()[0].plan;
  ASSERT_THAT(plan.kernels, SizeIs(1));
  EXPECT_EQ(plan.kernels[0].label, "Add + SoftCap + Mul");
  EXPECT_THAT(program.notes, SizeIs(0));
}

TEST_F(Fusing, AnExpressionIsRightAtEveryLengthInEveryType) {
  for (const DType dtype : kFloatTypes) {
    const std::string type(to_string(dtype));
    const std::string text = "graph (%x: " + type + "[r, c], %b: " + type +
                             "[c]) { %s = add(%x, %b) %p = com.example.SoftCap(%s) {limit = 4} "
                             "%q = test.sample.Blend(%p, %b) {weight = 0.75, power = 1} "
                             "%y = mul(%q, %x) return %y, %p }";
    const std::string alone =
        "graph (%x: " + type + "[r, c]) { %y = com.example.SoftCap(%x) {limit = 4} return %y }";
    const bool is_half = dtype == DType::F16 || dtype == DType::BF16;
    for (const std::int64_t length : kLengths) {
      SCOPED_TRACE(type + " " + std::to_string(length));
      expect_right(text,
                   {numbers(dtype, {2, length}, 1, false), numbers(dtype, {length}, 2, false)},
                   is_half ? Levels::Fused : Levels::All);
      expect_right(alone, {numbers(dtype, {2, length}, 3, true)});
    }
  }
}

TEST_F(Fusing, PredicatesAndIntegersAreRight) {
  const std::string text =
      "graph (%x: f32[n], %low: f32[1], %i: i8[n]) { %a = test.sample.Above(%x, %low) "
      "%s = test.sample.Square(%i) %t = add(%s, %i) %y = select(%a, %t, %i) return %y, %a }";
  for (const std::int64_t length : kLengths) {
    expect_right(text, {numbers(DType::F32, {length}, 5, true), floats({1}, {0.5}),
                        random_bits(DType::I8, {length}, 6)});
  }
}

TEST_F(Fusing, ABodyBecomesItsOperatorsUnderOneName) {
  const Graph graph = parsed(
      "graph (%x: f32[n, 96], %r: f32[n, 96], %g: f32[1]) {\n"
      "%h = add(%x, %r) @\"/add\" op \"Add\"\n"
      "%y = com.example.ScaleNorm(%h, %g) @\"/norm\" op \"ScaleNorm\"\n"
      "return %y, %h }");
  const Compiled program = compiled(graph, FusionLevel::Auto);
  const FusionPlan& plan = program.executable.versions()[0].plan;
  ASSERT_THAT(plan.kernels, SizeIs(1));
  EXPECT_EQ(plan.kernels[0].label, "Add + ScaleNorm");
  for (const auto& node : program.executable.graph().nodes()) {
    EXPECT_EQ(find_op(node->op())->origin, nullptr) << node->op();
  }
  // It is still what the user's model calls it, and not gone.
  EXPECT_EQ(program.history->outcome("/norm").fate, History::Fate::Kept);
}

TEST_F(Fusing, ABodyIsRightAtEveryLengthInEveryType) {
  for (const DType dtype : kFloatTypes) {
    const std::string type(to_string(dtype));
    for (const std::int64_t length : kLengths) {
      if (length == 0) continue;  // which has no rows to normalise
      SCOPED_TRACE(type + " " + std::to_string(length));
      const std::string columns = std::to_string(length);
      const bool is_half = dtype == DType::F16 || dtype == DType::BF16;
      expect_right("graph (%x: " + type + "[n, " + columns + "], %g: " + type +
                       "[1]) { %h = add(%x, %x) %n = com.example.ScaleNorm(%h, %g) "
                       "%y = silu(%n) return %y }",
                   {numbers(dtype, {3, length}, 7, false), make_tensor(dtype, {1}, {2})},
                   is_half ? Levels::Fused : Levels::All);
    }
  }
  expect_right(
      "graph (%x: f32[n, c]) { %a, %b = test.sample.Split(%x) {scale = 0.5} %y = exp(%a) "
      "%z = neg(%b) return %y, %z }",
      {numbers(DType::F32, {3, 17}, 8, false)});
}

TEST_F(Fusing, AnOpaqueOneIsACallAndSaysWhy) {
  const Graph graph = parsed(
      "graph (%x: f32[n, 8]) {\n"
      "%a = exp(%x) @\"/exp\" op \"Exp\"\n"
      "%s = com.example.SortRows(%a) @\"/sort\" op \"SortRows\"\n"
      "%y = neg(%s) @\"/neg\" op \"Neg\"\n"
      "return %y }");
  const Compiled program = compiled(graph, FusionLevel::Auto);
  const FusionPlan& plan = program.executable.versions()[0].plan;
  EXPECT_THAT(plan.kernels, SizeIs(3));
  const auto log = edge_log(plan, {{"n", 4}});
  ASSERT_TRUE(log);
  EXPECT_THAT(*log, Contains(AllOf(HasSubstr("keep /exp | /sort: opaque (/sort is run by a call: "
                                             "custom operator 'com.example.SortRows' of plugin "
                                             "'example' ("),
                                   HasSubstr("OpweldOp.expression"), HasSubstr("[F-OPAQUE]"))));
  EXPECT_THAT(program.notes,
              Contains(AllOf(HasSubstr("/sort is run by a call"), HasSubstr("plugin 'example'"))));
  expect_right(to_text(graph), {numbers(DType::F32, {5, 8}, 9, false)});
}

TEST_F(Fusing, CodeThatFailsFailsTheRunByTheNodesName) {
  const Graph graph = parsed(
      "graph (%x: f32[n]) { %a = exp(%x) %y = test.faulty.Throws(%a) @\"/layers.0/bad\" return %y "
      "}");
  Compiled program = compiled(graph, FusionLevel::Auto);
  const auto results = program.executable.run(std::vector<Tensor>{floats({2}, {1, 2})});
  ASSERT_FALSE(results);
  EXPECT_THAT(results.error().message,
              AllOf(HasSubstr("test.faulty.Throws '/layers.0/bad'"), HasSubstr("out of paint"),
                    HasSubstr("plugin 'faulty'")));
  // And the program is as good as before.
  EXPECT_FALSE(program.executable.run(std::vector<Tensor>{floats({1}, {1})}));
}

TEST_F(Fusing, ConstantsAreFoldedByEveryForm) {
  const Graph graph = parsed(
      "graph (%x: f32[3]) { %c = constant {value = f32[3] {3.0, 1.0, 2.0}}\n"
      "%s = com.example.SortRows(%c) %h = test.sample.Honest(%s) %y = add(%x, %h) return %y }");
  Compiled program = compiled(graph, FusionLevel::Auto);
  EXPECT_THAT(program.executable.versions()[0].plan.kernels, SizeIs(1));
  EXPECT_THAT(values_of(run(program, {floats({3}, {0, 0, 0})})[0]),
              ::testing::ElementsAre(3, 5, 7));
}

// The name alone would let a plan outlive what it was made for.
TEST_F(Fusing, APlanIsKeptUnderWhatItsOperatorsDeclare) {
  const Graph graph = parsed("graph (%x: i32[n]) { %y = test.sample.Square(%x) return %y }");
  const Target target = host_target();
  PlanOptions options;
  options.target = &target;
  EXPECT_THAT(planning_key(graph, options, ""),
              HasSubstr(find_op("test.sample.Square")->origin->declaration));
}

}  // namespace
}  // namespace opweld
