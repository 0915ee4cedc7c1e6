// The driver: what its options do, and the graphs at the edge of what it is given.
#include "compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "ops/builder.h"

namespace opweld {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A gelu in primitive operators between two matmuls.
constexpr const char* kModel = R"(graph g(%x: f32[n, 16]) {
  %w = constant {value = f32[16, 16] random 1}
  %half = constant {value = f32[] {0.5}}
  %one = constant {value = f32[] {1.0}}
  %root = constant {value = f32[] {1.4142135}}
  %m = matmul(%x, %w)
  %d = div(%m, %root)
  %e = erf(%d)
  %p = add(%e, %one)
  %q = mul(%m, %p)
  %g = mul(%q, %half)
  %y = matmul(%g, %w)
  return %y as "y"
})";

Expected<Compiled> compiled(std::string_view text, const CompileOptions& options = {}) {
  return compile(parse_graph(text).value(), options);
}

std::string plan_at(FusionLevel level, bool strict = false) {
  CompileOptions options;
  options.level = level;
  options.strict = strict;
  auto result = compiled(kModel, options);
  EXPECT_TRUE(result) << result.error().message;
  return result ? to_text(result->executable.plan()) : "";
}

TEST(Compile, LevelsFuseMoreAndMore) {
  EXPECT_EQ(plan_at(FusionLevel::None), R"(0 contract: matmul
1 map: div
2 map: erf
3 map: add
4 map: mul
5 map: mul
6 contract: matmul
)");
  const std::string fused = R"(0 contract: matmul + gelu
1 contract: matmul
)";
  EXPECT_EQ(plan_at(FusionLevel::Ops), fused);
  EXPECT_EQ(plan_at(FusionLevel::Auto), fused);
}

TEST(Compile, StrictLeavesSpellingsAsTheyAre) {
  for (const FusionLevel level : {FusionLevel::Ops, FusionLevel::Auto}) {
    EXPECT_EQ(plan_at(level, true), R"(0 contract: matmul + div + erf + add + mul + mul
1 contract: matmul
)");
  }
}

TEST(Compile, EveryPassCanBeLookedAt) {
  for (const std::string_view name : pass_names()) {
    CompileOptions options;
    options.dump_after = name;
    std::vector<std::string> dumped;
    options.dump = [&](std::string_view pass, const std::string& text) {
      EXPECT_EQ(pass, name);
      dumped.push_back(text);
    };
    ASSERT_TRUE(compiled(kModel, options)) << name;
    ASSERT_EQ(dumped.size(), 1U) << name;
    EXPECT_NE(dumped[0], "") << name;
  }
}

std::string dump_of(std::string_view name) {
  CompileOptions options;
  options.dump_after = name;
  std::string dumped;
  options.dump = [&](std::string_view, const std::string& text) { dumped = text; };
  EXPECT_TRUE(compiled(kModel, options));
  return dumped;
}

TEST(Compile, DumpsShowWhatThePassMade) {
  EXPECT_THAT(dump_of("verify"), AllOf(HasSubstr("graph g("), HasSubstr("erf")));
  EXPECT_THAT(dump_of("raise-gelu"), AllOf(HasSubstr("gelu"), HasSubstr("return")));
  EXPECT_EQ(dump_of("plan"), plan_at(FusionLevel::Auto));
  EXPECT_THAT(dump_of("tile"), HasSubstr("kernel contract"));
  EXPECT_THAT(dump_of("codegen"), HasSubstr("ret"));
}

TEST(Compile, AnUnknownPassIsAUsageErrorThatListsThem) {
  CompileOptions options;
  options.dump_after = "unheard-of";
  const auto result = compiled(kModel, options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::Usage);
  for (const std::string_view name : pass_names()) {
    EXPECT_THAT(result.error().message, HasSubstr(std::string(name)));
  }
}

TEST(Compile, AnUnknownTargetIsAUsageError) {
  CompileOptions options;
  options.target = "abacus";
  const auto result = compiled(kModel, options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::Usage);
  EXPECT_THAT(result.error().message, AllOf(HasSubstr("abacus"), HasSubstr("host")));
}

TEST(Compile, PassesAreAnnouncedAndTimedInOrder) {
  CompileOptions options;
  options.verify_passes = true;
  std::vector<std::string> announced;
  options.progress = [&](std::string_view pass) { announced.emplace_back(pass); };
  const auto result = compiled(kModel, options);
  ASSERT_TRUE(result);
  std::vector<std::string> expected;
  for (const std::string_view name : pass_names()) expected.emplace_back(name);
  expected.emplace_back("link");
  EXPECT_EQ(announced, expected);
  ASSERT_EQ(result->times.size(), expected.size());
  double total = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(result->times[i].pass, expected[i]);
    EXPECT_GE(result->times[i].seconds, 0);
    total += result->times[i].seconds;
  }
  EXPECT_EQ(result->seconds(), total);
}

TEST(Compile, ThreadsAreThoseAskedFor) {
  CompileOptions options;
  options.threads = 3;
  EXPECT_EQ(compiled(kModel, options)->executable.threads(), 3);
  options.threads = 0;
  EXPECT_GE(compiled(kModel, options)->executable.threads(), 1);
}

TEST(Compile, EqualKernelsAreCompiledOnce) {
  const auto result = compiled(R"(graph g(%x: f32[n, 32]) {
    %v = constant {value = f32[32, 32] random 1}
    %w = constant {value = f32[32, 32] random 2}
    %u = constant {value = f32[32, 32] random 3}
    %a = matmul(%x, %v)
    %b = matmul(%a, %w)
    %c = matmul(%b, %u)
    %y = tanh(%c)
    return %y as "y"
  })");
  ASSERT_TRUE(result) << result.error().message;
  const auto kernels = result->executable.kernels();
  ASSERT_EQ(kernels.size(), 3U);
  EXPECT_EQ(kernels[0].code->function, kernels[1].code->function);
  EXPECT_NE(kernels[1].code->function, kernels[2].code->function) << "the last has an epilogue";
}

TEST(Compile, WhatIsRunByACallSaysWhy) {
  const auto result = compiled(R"(graph g(%x: f32[n, 8]) {
    %v, %i = top_k(%x) {axis = 1, k = <4>, largest = 0, sorted = 1} @"/TopK"
    return %v as "v", %i as "i"
  })");
  ASSERT_TRUE(result);
  ASSERT_EQ(result->executable.kernels().size(), 1U);
  EXPECT_EQ(result->executable.kernels()[0].code, nullptr);
}

// ---- graphs at the edge ----

std::vector<Tensor> run(Compiled& model, const std::vector<Tensor>& inputs) {
  auto outputs = model.executable.run(inputs);
  EXPECT_TRUE(outputs) << outputs.error().message;
  return outputs ? std::move(*outputs) : std::vector<Tensor>();
}

Tensor ramp(const Sizes& sizes) {
  Tensor tensor = Tensor::allocate(DType::F32, sizes).value();
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.set_double(i, static_cast<double>(i + 1));
  }
  return tensor;
}

constexpr FusionLevel kLevels[] = {FusionLevel::None, FusionLevel::Ops, FusionLevel::Auto};

TEST(CompileEdges, AnEmptyGraph) {
  for (const FusionLevel level : kLevels) {
    CompileOptions options;
    options.level = level;
    options.verify_passes = true;
    auto model = compile(Graph("nothing"), options);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_THAT(run(*model, {}), IsEmpty());
  }
}

TEST(CompileEdges, AnInputThatIsGivenOut) {
  for (const FusionLevel level : kLevels) {
    CompileOptions options;
    options.level = level;
    auto model = compiled("graph g(%x: f32[n]) { return %x as \"y\", %x as \"z\" }", options);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_THAT(model->executable.plan().kernels, IsEmpty());
    for (const std::int64_t n : {0, 1, 5}) {
      const Tensor x = ramp({n});
      const std::vector<Tensor> outputs = run(*model, {x});
      ASSERT_EQ(outputs.size(), 2U);
      for (const Tensor& output : outputs) {
        ASSERT_EQ(output.sizes(), (Sizes{n}));
        for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(output.get_double(i), i + 1);
      }
    }
  }
}

TEST(CompileEdges, AGraphWithoutInputs) {
  for (const FusionLevel level : kLevels) {
    CompileOptions options;
    options.level = level;
    auto model = compiled(R"(graph g() {
      %c = constant {value = f32[3] {1.0, 2.0, 3.0}}
      %y = add(%c, %c)
      return %y as "y", %c as "c"
    })",
                          options);
    ASSERT_TRUE(model) << model.error().message;
    const std::vector<Tensor> outputs = run(*model, {});
    ASSERT_EQ(outputs.size(), 2U);
    EXPECT_EQ(outputs[0].get_double(2), 6);
    EXPECT_EQ(outputs[1].get_double(2), 3);
  }
}

TEST(CompileEdges, InputsThatNobodyReadsAreStillAskedFor) {
  for (const FusionLevel level : kLevels) {
    CompileOptions options;
    options.level = level;
    auto model = compiled(R"(graph g(%x: f32[n], %unread: f32[m], %z: f32[n]) {
      %dead = exp(%unread)
      %y = sub(%z, %x)
      return %y as "y"
    })",
                          options);
    ASSERT_TRUE(model) << model.error().message;
    ASSERT_EQ(model->executable.graph().inputs().size(), 3U);
    EXPECT_EQ(model->executable.plan().kernels.size(), 1U);
    const std::vector<Tensor> outputs = run(*model, {ramp({4}), ramp({7}), ramp({4})});
    ASSERT_EQ(outputs.size(), 1U);
    for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(outputs[0].get_double(i), 0);
    EXPECT_FALSE(model->executable.run(std::vector{ramp({4}), ramp({4})}));
  }
}

TEST(CompileEdges, AGraphThatIsNotWellFormedIsRefused) {
  Graph graph("wrong");
  Value* x = graph.add_input("x", {DType::F32, {Dim::symbol("n")}});
  // The result cannot be f16.
  const Node* node = graph.add_node("exp", {x}, {}, {{DType::F16, x->shape()}}, {"/Exp", "", ""});
  graph.add_output("y", node->result());
  const auto result = compile(std::move(graph));
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("/Exp"));
}

}  // namespace
}  // namespace opweld
