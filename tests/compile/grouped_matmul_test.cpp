// grouped_matmul from the graph to the results: its plan, its epilogues, and the errors of a run.
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <cstring>

#include "compile.h"
#include "fusion/reasons.h"
#include "ops/reference.h"
#include "report/account.h"
#include "runtime/compare.h"
#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

CompileOptions options_of(FusionLevel level, bool strict = false, int threads = 2,
                          const std::string& target = "host") {
  CompileOptions options;
  options.level = level;
  options.strict = strict;
  options.target = target;
  options.threads = threads;
  options.verify_passes = true;
  return options;
}

Executable compiled(const std::string& text, const CompileOptions& options) {
  auto result = compile(parse_graph(text).value(), options);
  EXPECT_TRUE(result) << result.error().message << "\n" << text;
  return std::move(result->executable);
}

Tensor counts_of(const Sizes& values) {
  Tensor tensor = Tensor::allocate(DType::I64, {static_cast<std::int64_t>(values.size())}).value();
  for (std::size_t i = 0; i < values.size(); ++i) {
    tensor.set_int(static_cast<std::int64_t>(i), values[i]);
  }
  return tensor;
}

constexpr std::int64_t kDepth = 13;
constexpr std::int64_t kColumns = 37;
constexpr int kGroups = 5;

// Pointwise work on %m [t, 37], which is the product of four operands; %r [t, 37] and %s [t, 1] are
// inputs, %d [37] is a constant.
struct Epilogue {
  std::string name;
  std::string body;  // defines %y
};

// One step each, and each before another.
std::vector<Epilogue> epilogues(bool pairs) {
  // From %{0} to %{1}.
  const std::vector<std::pair<std::string, std::string>> steps = {
      {"shift", "%{1} = add(%{0}, %d)"},
      {"silu", "%{1} = silu(%{0})"},
      {"weight", "%{1} = mul(%{0}, %s)"},
      {"residual", "%{1} = add(%r, %{0})"}};
  std::vector<Epilogue> result;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto& [name, step] = steps[i];
    result.push_back({name, fmt::format(fmt::runtime(step), "m", "y")});
    for (std::size_t j = i + 1; pairs && j < steps.size(); ++j) {
      const auto& [next_name, next] = steps[j];
      result.push_back({name + "_" + next_name, fmt::format(fmt::runtime(step), "m", "q") + "\n" +
                                                    fmt::format(fmt::runtime(next), "q", "y")});
    }
  }
  return result;
}

std::string model(const std::string& dtype, const std::string& body, bool bias = true) {
  return fmt::format(R"(graph g(%x: {0}[t, {1}], %c: i64[{3}], %r: {0}[t, {2}], %s: {0}[t, 1]) {{
    %w = constant {{value = {0}[{3}, {1}, {2}] random 1}}
    %b = constant {{value = {0}[{3}, {2}] random 2}}
    %d = constant {{value = {0}[{2}] random 3}}
    %half = constant {{value = {0}[] {{0.5}}}}
    %m = grouped_matmul(%x, %w, %c{4}) @"experts"
    {5}
    return %y as "y"
  }})",
                     dtype, kDepth, kColumns, kGroups, bias ? ", %b" : "", body);
}

std::vector<Tensor> inputs_of(const std::string& text, const Sizes& counts) {
  std::int64_t rows = 0;
  for (const std::int64_t count : counts) rows += count;
  const Graph graph = parse_graph(text).value();
  std::vector<Tensor> inputs;
  for (const Value* input : graph.inputs()) {
    inputs.push_back(random_tensor(input->type(),
                                   evaluate(input->shape(), Bindings{{"t", rows}}).value(),
                                   static_cast<unsigned>(inputs.size()) + 1));
  }
  inputs[1] = counts_of(counts);
  return inputs;
}

const std::vector<Sizes> kSplits = {{0, 0, 0, 0, 0},  {1, 0, 0, 0, 0},    {0, 0, 17, 0, 0},
                                    {0, 0, 0, 0, 31}, {3, 0, 11, 2, 0},   {1, 1, 1, 1, 1},
                                    {0, 7, 0, 5, 19}, {0, 150, 3, 0, 120}};

class GroupedEpilogue : public ::testing::TestWithParam<std::string> {};

// In one kernel; right against f64; in strict mode with the bits of the unfused run.
TEST_P(GroupedEpilogue, AloneAndInPairs) {
  for (const Epilogue& epilogue : epilogues(/*pairs=*/GetParam() == "f32")) {
    SCOPED_TRACE(epilogue.name);
    const std::string text = model(GetParam(), epilogue.body);
    const Graph graph = parse_graph(text).value();
    Executable fused = compiled(text, options_of(FusionLevel::Auto));
    Executable strict = compiled(text, options_of(FusionLevel::Auto, true));
    Executable unfused = compiled(text, options_of(FusionLevel::None, true));
    EXPECT_EQ(fused.plan().kernels.size(), 1U) << to_text(fused.plan());
    EXPECT_EQ(strict.plan().kernels.size(), 1U) << to_text(strict.plan());
    for (const Sizes& counts : kSplits) {
      SCOPED_TRACE(fmt::format("counts {}", fmt::join(counts, " ")));
      const std::vector<Tensor> inputs = inputs_of(text, counts);
      const auto exact = evaluate(graph, inputs, {.in_f64 = true, .observer = {}}).value();
      const auto together = fused.run(inputs).value();
      const Comparison result =
          compare_strictly(together[0], exact[0], default_tolerance(together[0].dtype()));
      ASSERT_TRUE(result.equal) << result.message;
      const auto as_if_stored = strict.run(inputs).value();
      ASSERT_TRUE(identical(as_if_stored[0], unfused.run(inputs).value()[0]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryDType, GroupedEpilogue, ::testing::Values("f32", "f16", "bf16"),
                         [](const auto& dtype) { return dtype.param; });

// The same bits for any number of threads, with more row blocks than one and groups across them.
TEST(GroupedMatmul, DoesNotDependOnThreads) {
  for (const std::string dtype : {"f32", "bf16"}) {
    const std::string text = model(dtype, "%a = silu(%m)\n%y = add(%a, %r)");
    Executable one = compiled(text, options_of(FusionLevel::Auto, false, 1));
    Executable two = compiled(text, options_of(FusionLevel::Auto, false, 2));
    Executable three = compiled(text, options_of(FusionLevel::Auto, false, 3));
    for (const Sizes& counts : {Sizes{0, 1, 700, 13, 0}, Sizes{251, 0, 241, 239, 233}}) {
      const std::vector<Tensor> inputs = inputs_of(text, counts);
      const Tensor expected = one.run(inputs).value()[0];
      EXPECT_TRUE(identical(two.run(inputs).value()[0], expected));
      EXPECT_TRUE(identical(three.run(inputs).value()[0], expected));
    }
  }
}

TEST(GroupedMatmul, EveryWidthOfVectors) {
  int targets = 0;
  for (const char* target : {"host-generic", "host-avx2", "host-avx512"}) {
    for (const std::string dtype : {"f32", "f16", "bf16"}) {
      const std::string text = model(dtype, "%a = silu(%m)\n%y = add(%a, %r)");
      auto result =
          compile(parse_graph(text).value(), options_of(FusionLevel::Auto, false, 2, target));
      if (!result) continue;  // this processor does not have it
      ++targets;
      for (const Sizes& counts : kSplits) {
        const std::vector<Tensor> inputs = inputs_of(text, counts);
        const auto exact =
            evaluate(parse_graph(text).value(), inputs, {.in_f64 = true, .observer = {}}).value();
        const auto actual = result->executable.run(inputs).value();
        const Comparison same =
            compare_strictly(actual[0], exact[0], default_tolerance(actual[0].dtype()));
        EXPECT_TRUE(same.equal) << target << ": " << same.message;
      }
    }
  }
  EXPECT_GE(targets, 3);
}

// The record speaks of it as of any matmul.
TEST(GroupedMatmulPlan, ConsumersWeldInAsEpilogue) {
  const std::string text = model("f32", "%a = silu(%m)\n%y = add(%a, %r)");
  const Executable fused = compiled(text, options_of(FusionLevel::Auto));
  EXPECT_EQ(to_text(fused.plan()), "0 contract: grouped_matmul + silu + add\n");
  EXPECT_EQ(to_text(compiled(text, options_of(FusionLevel::None)).plan()),
            "0 contract: grouped_matmul\n1 map: silu\n2 map: add\n");
  for (const Verdict& verdict : fused.plan().verdicts) {
    EXPECT_EQ(verdict.code, ReasonCode::Fused);
  }
  // Unfused, 2 kernels more, each of which reads and writes [t, 37] f32.
  EXPECT_THAT(fusion_log(fused.plan(), Bindings{{"t", 100}}, true).value(),
              ElementsAre("AutoFusion: grouped_matmul + silu + add -> FusedKernel_0 saves 59.2 kB, "
                          "2 kernels"));
}

TEST(GroupedMatmulPlan, WhatAContractCannotHoldIsKeptWithAReason) {
  const Executable fused = compiled(model("f32", R"(
    %a = softmax(%m) {axis = -1}
    %y = mul(%a, %s))"),
                                    options_of(FusionLevel::Auto));
  EXPECT_EQ(to_text(fused.plan()), "0 contract: grouped_matmul\n1 row: softmax + mul\n");
  EXPECT_THAT(kept_edges_log(fused.plan()),
              ElementsAre(HasSubstr("rows of tokens and rows of experts) [F-DOMAIN]")));
}

TEST(GroupedMatmulPlan, AGateIsOneKernel) {
  const std::string gate = R"(
    %g = slice(%m) {starts = <0, 0>, sizes = <t, 18>, steps = [1, 1]}
    %u = slice(%m) {starts = <0, 18>, sizes = <t, 18>, steps = [1, 1]}
    %a = silu(%g)
    %y = mul(%a, %u))";
  std::string text = model("f32", gate);
  for (auto at = text.find("37"); at != std::string::npos; at = text.find("37", at)) {
    text.replace(at, 2, "36");
  }
  EXPECT_EQ(to_text(compiled(text, options_of(FusionLevel::Auto)).plan()),
            "0 contract: grouped_matmul + slice + slice + silu + mul\n");
}

// Whatever the level, the threads and the number of tasks: an error that names the operator and the
// numbers, and no row of the result is touched.
TEST(GroupedMatmulErrors, NameTheOperatorAndTheNumbersBeforeARowIsWritten) {
  const std::string text = model("f32", "%a = silu(%m)\n%y = add(%a, %r)");
  struct Case {
    Sizes counts;
    std::string message;
  };
  const Case cases[] = {
      {{100, 100, 100, 100, 99},
       "grouped_matmul 'experts': the groups have fewer rows than 'x' (groups 499, 'x' 500)"},
      {{100, 100, 100, 100, 101},
       "grouped_matmul 'experts': the groups have more rows than 'x' (group 4, start 400, rows "
       "101, "
       "'x' 500)"},
      {{100, -1, 101, 200, 100},
       "grouped_matmul 'experts': a group has a negative number of rows (group 1, rows -1)"},
  };
  for (const FusionLevel level : {FusionLevel::None, FusionLevel::Ops, FusionLevel::Auto}) {
    for (const int threads : {1, 2, 3}) {
      Executable executable = compiled(text, options_of(level, false, threads));
      for (const Case& wrong : cases) {
        std::vector<Tensor> inputs = inputs_of(text, {100, 100, 100, 100, 100});
        inputs[1] = counts_of(wrong.counts);
        Tensor output = Tensor::allocate(DType::F32, {500, kColumns}).value();
        for (std::int64_t i = 0; i < output.num_elements(); ++i) output.set_double(i, 12345);
        const Status status = executable.run_into(inputs, {&output, 1});
        ASSERT_FALSE(status);
        EXPECT_THAT(status.error().message, HasSubstr(wrong.message));
        for (std::int64_t i = 0; i < output.num_elements(); ++i) {
          ASSERT_EQ(output.get_double(i), 12345);
        }
      }
      // And the executable serves the next run.
      EXPECT_TRUE(executable.run(inputs_of(text, {100, 100, 100, 100, 100})));
    }
  }
}

// Integers are a call of the definition, which says the same.
TEST(GroupedMatmulErrors, OfACall) {
  const std::string text = R"(graph g(%x: i32[t, 2], %c: i64[2]) {
    %w = constant {value = i32[2, 2, 1] {1, 2, 3, 4}}
    %y = grouped_matmul(%x, %w, %c) @"experts"
    return %y as "y"
  })";
  Executable executable = compiled(text, options_of(FusionLevel::Auto));
  Tensor x = Tensor::allocate(DType::I32, {2, 2}).value();
  for (std::int64_t i = 0; i < 4; ++i) x.set_int(i, i + 1);
  const auto result = executable.run(std::vector{x, counts_of({1, 1})}).value()[0];
  EXPECT_EQ(result.get_int(0), 1 * 1 + 2 * 2);
  EXPECT_EQ(result.get_int(1), 3 * 3 + 4 * 4);
  const auto wrong = executable.run(std::vector{x, counts_of({1, 2})});
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message,
              HasSubstr("'experts': the groups have more rows than 'x' (group 1, start 1, rows 2, "
                        "'x' 2)"));
}

}  // namespace
}  // namespace opweld::testing
