// Models whose sizes are not known until a run: one plan for many rows, another for any.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "compile.h"
#include "ops/reference.h"
#include "report/account.h"
#include "runtime/compare.h"
#include "runtime/compiled.h"

namespace opweld::testing {
namespace {

using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Two norms and a feed-forward over b*s rows; `range` is "where s in [..]".
std::string feed_forward(const std::string& range = "") {
  return "graph g(%x: f32[b, s, 40]) " + range + R"( {
    %v = constant {value = f32[40, 70] random 1}
    %w = constant {value = f32[70, 40] random 2}
    %g = constant {value = f32[40] random 3}
    %h = constant {value = f32[40] random 4}
    %n = rms_norm(%x, %g) {axis = -1, epsilon = 1e-06}
    %a = matmul(%n, %v)
    %c = silu(%a)
    %d = matmul(%c, %w)
    %r = add(%d, %x)
    %y = rms_norm(%r, %h) {axis = -1, epsilon = 1e-06}
    return %y as "y"
  })";
}

// A narrow norm with its matmuls asks for fewer rows than a feed-forward twelve times as wide;
// sizes between have the kernel of the one, and those of the other apart.
std::string several_versions() {
  return R"(graph g(%x: f32[s, 32], %g: f32[32], %h: f32[384]) {
    %v = constant {value = f32[32, 32] random 1}
    %w = constant {value = f32[32, 32] random 2}
    %u = constant {value = f32[384, 1536] random 3}
    %d = constant {value = f32[1536, 384] random 4}
    %a = matmul(%x, %v)
    %b = exp(%a)
    %c = matmul(%b, %w)
    %n = rms_norm(%c, %g) {axis = -1, epsilon = 1e-06}
    %i, %j = top_k(%n) {axis = 1, k = <32>, largest = 1, sorted = 1}
    %e = expand(%i) {shape = <12, s, 32>}
    %t = transpose(%e) {permutation = [1, 0, 2]}
    %r = reshape(%t) {shape = <s, 384>}
    %p = matmul(%r, %u)
    %q = silu(%p)
    %y = matmul(%q, %d)
    %z = rms_norm(%y, %h) {axis = -1, epsilon = 1e-06}
    return %z as "z"
  })";
}

constexpr const char* kManyRows = "0 chain: rms_norm + matmul + silu + matmul + add + rms_norm\n";

Executable compiled_as(const std::string& text, FusionLevel level, bool strict = false) {
  CompileOptions options;
  options.level = level;
  options.strict = strict;
  options.threads = 2;
  options.verify_passes = true;
  auto result = compile(parse_graph(text).value(), options);
  EXPECT_TRUE(result) << result.error().message;
  return std::move(result->executable);
}

// Rows of a task from which on the plan for many is meant.
std::int64_t rows_asked_for() {
  static const std::int64_t kRows = [] {
    const Executable model = compiled_as(feed_forward(), FusionLevel::Auto);
    return model.versions().front().plan.conditions.at(0).least;
  }();
  return kRows;
}

// Rows at which each core has enough of them.
std::int64_t enough_rows() {
  return rows_asked_for() * host_target().cores;
}

TEST(PlanVersions, AreTwoWhereWhatPaysDependsOnTheSizes) {
  const Executable model = compiled_as(feed_forward(), FusionLevel::Auto);
  ASSERT_THAT(model.versions(), SizeIs(2));
  EXPECT_EQ(to_text(model.versions()[0].plan), kManyRows);
  ASSERT_THAT(model.versions()[0].plan.conditions, SizeIs(1));
  EXPECT_GT(model.plan().kernels.size(), 1U);
  EXPECT_THAT(model.plan().conditions, SizeIs(0));
  const auto version = [&](std::int64_t b, std::int64_t s) {
    return model.version_for({{"b", b}, {"s", s}});
  };
  EXPECT_EQ(version(1, enough_rows()), 0U);
  EXPECT_EQ(version(enough_rows(), 1), 0U);
  EXPECT_EQ(version(3, enough_rows()), 0U);
  EXPECT_EQ(version(1, enough_rows() * 50), 0U);
  EXPECT_EQ(version(1, enough_rows() / 2), 1U);
  EXPECT_EQ(version(1, 1), 1U);
  EXPECT_EQ(version(0, 7), 1U);
  EXPECT_EQ(version(1, 0), 1U);
}

TEST(PlanVersions, AreOneWhereSizesAreKnownOrDoNotMatter) {
  std::string fixed = feed_forward();
  fixed.replace(fixed.find("b, s"), 4, "4000");
  EXPECT_THAT(compiled_as(fixed, FusionLevel::Auto).versions(), SizeIs(1));
  EXPECT_THAT(compiled_as(feed_forward(), FusionLevel::None).versions(), SizeIs(1));
  // A norm joins the matmul behind it for any number of rows.
  EXPECT_THAT(compiled_as(R"(graph g(%x: f32[n, 40], %g: f32[40]) {
    %v = constant {value = f32[40, 70] random 1}
    %n = rms_norm(%x, %g) {axis = -1, epsilon = 1e-06}
    %a = matmul(%n, %v)
    %y = exp(%a)
    return %y as "y"
  })",
                          FusionLevel::Auto)
                  .versions(),
              SizeIs(1));
}

std::vector<std::pair<std::int64_t, std::int64_t>> sizes_on_both_sides() {
  const std::int64_t enough = enough_rows();
  return {{0, 5},          {1, 0},      {1, 1},          {1, 7},          {2, enough / 2 - 8},
          {1, enough - 7}, {1, enough}, {1, enough + 1}, {3, enough + 5}, {1, 4 * enough + 3}};
}

TEST(PlanVersions, GiveTheReferencesResultsAtEverySize) {
  const std::string text = feed_forward();
  Executable model = compiled_as(text, FusionLevel::Auto);
  Executable strict = compiled_as(text, FusionLevel::Auto, true);
  Executable unfused = compiled_as(text, FusionLevel::None, true);
  RunOptions in_one_launch;
  in_one_launch.single_launch = true;
  for (int turn = 0; turn < 2; ++turn) {  // sizes take turns in what a run leaves behind
    for (const auto& [b, s] : sizes_on_both_sides()) {
      SCOPED_TRACE(fmt::format("b = {}, s = {}", b, s));
      const auto inputs = random_inputs(text, {{"b", b}, {"s", s}});
      const auto exact =
          evaluate(parse_graph(text).value(), inputs, {.in_f64 = true, .observer = {}}).value();
      RunStats stats;
      const auto actual = model.run(inputs, &stats).value();
      const Comparison result = compare(actual[0], exact[0], default_tolerance(DType::F32));
      EXPECT_TRUE(result.equal) << result.message;
      EXPECT_EQ(static_cast<std::size_t>(stats.kernels),
                model.plan({{"b", b}, {"s", s}}).kernels.size());
      expect_identical(model.run(inputs, nullptr, in_one_launch).value(), actual);
      expect_identical(strict.run(inputs).value(), unfused.run(inputs).value());
    }
  }
}

TEST(PlanVersions, ServeCallersOfDifferentSizesAtOnce) {
  const std::string text = feed_forward();
  Executable model = compiled_as(text, FusionLevel::Auto);
  const auto call = [&](std::int64_t rows) {
    const auto inputs = random_inputs(text, {{"b", 1}, {"s", rows}});
    const auto first = model.run(inputs).value();
    for (int i = 0; i < 20; ++i) expect_identical(model.run(inputs).value(), first);
  };
  std::thread few(call, 5);
  std::thread many(call, enough_rows() + 1);
  few.join();
  many.join();
}

// The weights are there once: kernels of both versions read the same packed ones.
TEST(PlanVersions, ShareWeightsAndTellWhatTheyHold) {
  const Executable model = compiled_as(feed_forward(), FusionLevel::Auto);
  const auto at = [&](std::int64_t s) { return model.memory({{"b", 1}, {"s", s}}, false).value(); };
  const MemoryAccount few = at(3);
  const MemoryAccount many = at(enough_rows());
  EXPECT_EQ(few.held_weight_bytes, many.held_weight_bytes);
  // Of two matrices, padded to whole panels, and two scales.
  EXPECT_LT(few.held_weight_bytes, 4 * (40 * 128 + 70 * 64 + 2 * 40 + 64));
  EXPECT_EQ(many.arena_bytes, 0);
  EXPECT_GT(few.arena_bytes, 0);
}

TEST(PlanVersions, AnObserverSeesTheKernelsThatRun) {
  const std::string text = feed_forward();
  Executable model = compiled_as(text, FusionLevel::Auto);
  for (const std::int64_t s : {std::int64_t{4}, enough_rows()}) {
    std::vector<std::string> seen;
    RunOptions options;
    options.observer = [&](const Kernel& kernel, const auto&...) -> Status {
      seen.push_back(kernel.label);
      return {};
    };
    ASSERT_TRUE(model.run(random_inputs(text, {{"b", 1}, {"s", s}}), nullptr, options));
    std::vector<std::string> labels;
    for (const Kernel& kernel : model.plan({{"b", 1}, {"s", s}}).kernels) {
      labels.push_back(kernel.label);
    }
    EXPECT_EQ(seen, labels);
  }
}

TEST(PlanVersions, AnEdgeSaysThatMoreRowsWouldJoinIt) {
  const Executable model = compiled_as(feed_forward(), FusionLevel::Auto);
  const auto log = kept_edges_log(model.plan());
  EXPECT_THAT(log, ::testing::Contains(HasSubstr("where there are as many, another plan is run")));
  EXPECT_THAT(kept_edges_log(model.versions()[0].plan), SizeIs(0));
}

TEST(PlanVersions, TheAccountSaysWhatThePlanIsFor) {
  const Executable model = compiled_as(feed_forward(), FusionLevel::Auto);
  const Bindings many = {{"b", 2}, {"s", enough_rows()}};
  const FusionPlan& plan = model.plan(many);
  ASSERT_THAT(conditions_log(plan, many), SizeIs(1));
  EXPECT_THAT(conditions_log(plan, many)[0],
              ::testing::MatchesRegex(fmt::format(
                  "for sizes that give {} rows of a task of FusedKernel_0 or more: [0-9]+ here",
                  rows_asked_for())));
  const std::string json = explain_json(plan, many, {}).value();
  EXPECT_THAT(json, HasSubstr(R"("conditions":[{"what":"rows of a task of FusedKernel_0")"));
  const Bindings few = {{"b", 2}, {"s", 3}};
  EXPECT_THAT(conditions_log(model.plan(few), few), SizeIs(0));
  EXPECT_THAT(explain_json(model.plan(few), few, {}).value(), HasSubstr(R"("conditions":[],)"));
}

TEST(PlanVersions, TheAccountTellsOfAllOfThem) {
  const Executable model = compiled_as(feed_forward(), FusionLevel::Auto);
  const std::int64_t least = rows_asked_for();
  const std::size_t apart = model.plan().kernels.size();
  const Bindings few = {{"b", 2}, {"s", 3}};
  const Bindings many = {{"b", 2}, {"s", enough_rows()}};
  EXPECT_EQ(versions_log(model.plan(few)),
            fmt::format("2 plans: 1 kernel from {} rows of a task of FusedKernel_0 on, {} (this "
                        "one) for any other sizes",
                        least, apart));
  EXPECT_EQ(version_text(model.plan(few), few), "plan 2 of 2, for any other sizes");
  EXPECT_THAT(
      version_text(model.plan(many), many),
      ::testing::MatchesRegex(fmt::format(
          "plan 1 of 2, for {} rows of a task of FusedKernel_0 or more, [0-9]+ here", least)));
  const std::string json = explain_json(model.plan(few), few, {}).value();
  EXPECT_THAT(json, HasSubstr(R"("versions":[{"kernels":1,"chosen":false,"conditions":[{)"));
  EXPECT_THAT(json,
              HasSubstr(fmt::format(R"({{"kernels":{},"chosen":true,"conditions":[]}}])", apart)));
  std::string fixed = feed_forward();
  fixed.replace(fixed.find("b, s"), 4, "4000");
  const Executable alone = compiled_as(fixed, FusionLevel::Auto);
  EXPECT_EQ(versions_log(alone.plan()), "");
  EXPECT_EQ(version_text(alone.plan(), {}), "");
  EXPECT_THAT(explain_json(alone.plan(), {}, {}).value(), HasSubstr(R"("versions":[],)"));
}

// A kernel that several plans have is machine code once.
TEST(PlanVersions, ShareTheCodeOfEqualKernels) {
  const Executable model = compiled_as(several_versions(), FusionLevel::Auto);
  ASSERT_THAT(model.versions(), SizeIs(Ge(3U)));
  std::map<std::string, CompiledKernel::Function> code;
  std::size_t kernels = 0;
  for (const PlanVersion& version : model.versions()) {
    for (const ExecutableKernel& kernel : version.kernels) {
      if (kernel.program == nullptr) continue;
      ++kernels;
      const auto [known, is_new] = code.emplace(to_text(*kernel.program), kernel.code->function);
      EXPECT_EQ(known->second, kernel.code->function);
    }
  }
  EXPECT_LT(code.size(), kernels) << "no two plans have a kernel in common";
}

TEST(PlanVersions, ADumpTellsThemApart) {
  CompileOptions options;
  std::string dumped;
  options.dump_after = "plan";
  options.dump = [&](std::string_view, const std::string& text) { dumped = text; };
  ASSERT_TRUE(compile(parse_graph(feed_forward()).value(), options));
  EXPECT_THAT(dumped, ::testing::StartsWith("where "));
  EXPECT_THAT(dumped, HasSubstr(fmt::format(" >= {}:\n", rows_asked_for()) + kManyRows +
                                "for any other sizes:\n"));
}

TEST(PlanVersions, AreSeveralWhereKernelsAskForDifferentRows) {
  const Executable model = compiled_as(several_versions(), FusionLevel::Auto);
  const auto& versions = model.versions();
  ASSERT_THAT(versions, SizeIs(Ge(3U)));
  for (std::size_t i = 0; i + 1 < versions.size(); ++i) {
    const FusionPlan& more = versions[i].plan;
    const FusionPlan& fewer = versions[i + 1].plan;
    EXPECT_LT(more.kernels.size(), fewer.kernels.size());
    EXPECT_TRUE(more.is_for({{"s", (more.conditions.at(0).least + 1) * host_target().cores}}));
  }
  EXPECT_EQ(model.version_for({{"s", 1}}), versions.size() - 1);
  EXPECT_EQ(model.version_for({{"s", 1'000'000}}), 0U);
  EXPECT_THAT(versions.back().plan.conditions, SizeIs(0));
}

// A length that cannot grow so far needs no plan for it.
TEST(PlanVersions, AreOneWhereSizesCannotBeLargeEnough) {
  const std::string few = feed_forward("where b in [1, 1], s in [1, 16]");
  EXPECT_THAT(compiled_as(few, FusionLevel::Auto).versions(), SizeIs(1));
  const std::string many = feed_forward("where b in [1, 1], s in [1, 100000]");
  EXPECT_THAT(compiled_as(many, FusionLevel::Auto).versions(), SizeIs(2));
}

}  // namespace
}  // namespace opweld::testing
