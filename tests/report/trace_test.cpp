// The time line of a run: what it says must fit together, and with the plan.
#include "report/trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "runtime/compiled.h"

namespace opweld::testing {
namespace {

using Json = nlohmann::json;

constexpr const char* kModel = R"(graph g(%x: f32[n, 64]) {
  %w = constant {value = f32[64, 64] random 1}
  %a = matmul(%x, %w)
  %b = transpose(%a) {permutation = [1, 0]}
  %c = matmul(%b, %a)
  %d = softmax(%c) {axis = -1}
  return %d as "d"
})";
constexpr int kThreads = 2;

struct Traced {
  Executable executable;
  RunStats stats;
};

Traced traced(bool single_launch, bool trace = true) {
  Executable executable = compiled(kModel, kThreads, FusionLevel::None);
  const auto inputs = random_inputs(kModel, {{"n", 300}});
  RunOptions options;
  options.single_launch = single_launch;
  options.trace = trace;
  RunStats stats;
  const auto outputs = executable.run(inputs, &stats, options);
  EXPECT_TRUE(outputs) << outputs.error().message;
  return {std::move(executable), std::move(stats)};
}

class TraceOf : public ::testing::TestWithParam<bool> {};

TEST_P(TraceOf, EveryKernelIsWorkedOnInsideALaunch) {
  const auto [executable, stats] = traced(GetParam());
  const std::size_t kernels = executable.plan().kernels.size();
  ASSERT_GT(kernels, 2U);
  ASSERT_EQ(stats.timeline.launches.size(), GetParam() ? 1U : kernels);
  std::set<int> worked;
  for (const Timeline::Work& work : stats.timeline.work) {
    worked.insert(work.kernel);
    EXPECT_GE(work.thread, 0);
    EXPECT_LT(work.thread, kThreads);
    EXPECT_LE(work.begin, work.end);
    const auto& launch =
        stats.timeline.launches[GetParam() ? 0 : static_cast<std::size_t>(work.kernel)];
    EXPECT_GE(work.begin, launch.begin);
    EXPECT_LE(work.end, launch.end);
  }
  EXPECT_EQ(worked.size(), kernels);
}

TEST_P(TraceOf, AThreadIsInOneKernelAtATime) {
  const auto [executable, stats] = traced(GetParam());
  for (int thread = 0; thread < kThreads; ++thread) {
    double end = 0;
    for (const Timeline::Work& work : stats.timeline.work) {
      if (work.thread != thread) continue;
      EXPECT_GE(work.begin, end);
      end = work.end;
    }
  }
}

TEST_P(TraceOf, TheFileHasAnEventForEachAndNamesItsRows) {
  const auto [executable, stats] = traced(GetParam());
  const Json trace = Json::parse(chrome_trace(executable.plan(), stats, kThreads));
  std::size_t launches = 0;
  std::size_t work = 0;
  std::set<int> rows;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "M") {
      if (event["name"] == "thread_name") rows.insert(event["tid"].get<int>());
      continue;
    }
    EXPECT_EQ(event["ph"], "X");
    EXPECT_GE(event["ts"].get<double>(), 0);
    EXPECT_GE(event["dur"].get<double>(), 0);
    EXPECT_TRUE(rows.contains(event["tid"].get<int>()));
    (event["cat"] == "launch" ? launches : work) += 1;
    if (event["cat"] != "kernel") continue;
    EXPECT_GT(event["args"]["read_bytes"], 0);
  }
  EXPECT_EQ(launches, stats.timeline.launches.size());
  EXPECT_EQ(work, stats.timeline.work.size());
  EXPECT_EQ(rows.size(), 1U + kThreads);
}

INSTANTIATE_TEST_SUITE_P(SingleLaunch, TraceOf, ::testing::Bool());

TEST(Trace, WhoDoesNotAskGetsNone) {
  for (const bool single_launch : {false, true}) {
    const auto [executable, stats] = traced(single_launch, false);
    EXPECT_TRUE(stats.timeline.launches.empty());
    EXPECT_TRUE(stats.timeline.work.empty());
  }
}

TEST(Trace, DoesNotTimeKernelsUnlessTheyAreProfiled) {
  for (const bool single_launch : {false, true}) {
    const auto [executable, stats] = traced(single_launch);
    for (const KernelStats& kernel : stats.by_kernel) EXPECT_EQ(kernel.seconds, 0);
  }
}

}  // namespace
}  // namespace opweld::testing
