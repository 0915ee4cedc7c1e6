// Where threads wait when all kernels run in one launch, and that nothing else changes.
#include "runtime/single_launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "ops/reference.h"
#include "runtime/compiled.h"

namespace opweld::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// ---- the arrangement ----

TEST(ArrangeLaunch, ABarrierWhereOneReadsWhatAnotherWrote) {
  // x -> q, k, v -> attention -> projection
  const std::vector<LaunchedKernel> kernels = {{8, {}}, {8, {}}, {8, {}}, {8, {0, 1, 2}}, {8, {3}}};
  const SingleLaunch launch = arrange_launch(kernels);
  EXPECT_THAT(launch.stretch_of, ElementsAre(0, 0, 0, 1, 2));
  EXPECT_EQ(launch.barriers(), 2);
}

TEST(ArrangeLaunch, BranchesDoNotWaitForEachOther) {
  // q -> rope, k -> rope in the plan's order, which would take two barriers as it stands.
  const std::vector<LaunchedKernel> kernels = {{8, {}}, {8, {0}}, {8, {}}, {8, {2}}, {8, {1, 3}}};
  const SingleLaunch launch = arrange_launch(kernels);
  EXPECT_THAT(launch.stretch_of, ElementsAre(0, 1, 0, 1, 2));
}

TEST(ArrangeLaunch, NoKernelsAndNoneThatWait) {
  EXPECT_EQ(arrange_launch({}).stretches, 0);
  EXPECT_EQ(arrange_launch({}).barriers(), 0);
  const std::vector<LaunchedKernel> apart = {{8, {}}, {0, {}}, {1, {}}};
  EXPECT_EQ(arrange_launch(apart).barriers(), 0);
}

TEST(ArrangeLaunch, SingleTasksInARowAreOneStep) {
  const std::vector<LaunchedKernel> kernels = {{8, {}}, {1, {0}}, {1, {1}}, {0, {2}}, {8, {3}}};
  const SingleLaunch launch = arrange_launch(kernels);
  EXPECT_THAT(launch.stretch_of, ElementsAre(0, 1, 1, 1, 2));
  ASSERT_EQ(launch.steps.size(), 3U);
  EXPECT_THAT(launch.steps[1].kernels, ElementsAre(1, 2, 3));
  EXPECT_EQ(launch.steps[1].tasks, 1);
}

TEST(ArrangeLaunch, ASingleTaskThatJoinsTwoChainsWaitsForBoth) {
  const std::vector<LaunchedKernel> kernels = {{1, {}}, {1, {}}, {1, {0, 1}}};
  const SingleLaunch launch = arrange_launch(kernels);
  EXPECT_THAT(launch.stretch_of, ElementsAre(0, 0, 1));
  EXPECT_EQ(launch.steps.size(), 3U);
}

TEST(ArrangeLaunch, WhatIsReadLateIsMadeLate) {
  // The second kernel depends on nothing, and the last one alone reads it; the third is an output.
  const std::vector<LaunchedKernel> kernels = {{8, {}},  {8, {}},  {8, {}},
                                               {8, {0}}, {8, {3}}, {8, {1, 4}}};
  EXPECT_THAT(arrange_launch(kernels).stretch_of, ElementsAre(0, 2, 0, 1, 2, 3));
}

TEST(ArrangeLaunch, WhatOneThreadAloneCanDoComesFirst) {
  const std::vector<LaunchedKernel> kernels = {{8, {}}, {1, {}}, {8, {0, 1}}};
  const SingleLaunch launch = arrange_launch(kernels);
  EXPECT_THAT(launch.steps[0].kernels, ElementsAre(1));
  EXPECT_THAT(launch.steps[1].kernels, ElementsAre(0));
}

// Random graphs: each kernel once, after what it reads, and as few barriers as chains allow.
TEST(ArrangeLaunch, HoldsForAnyGraph) {
  std::mt19937 random(1);
  const auto below = [&](int limit) { return static_cast<int>(random() % unsigned(limit)); };
  for (int round = 0; round < 3000; ++round) {
    const int count = 1 + below(14);
    const bool single_tasks = round % 2 == 0;
    std::vector<LaunchedKernel> kernels;
    std::vector<int> chain;  // kernels of the longest that ends with this one
    for (int i = 0; i < count; ++i) {
      LaunchedKernel kernel{single_tasks ? below(3) : 2 + below(9), {}};
      int longest = 0;
      for (int producer = 0; producer < i; ++producer) {
        if (below(4) != 0) continue;
        kernel.producers.push_back(producer);
        longest = std::max(longest, chain[static_cast<std::size_t>(producer)]);
      }
      kernels.push_back(std::move(kernel));
      chain.push_back(longest + 1);
    }
    const SingleLaunch launch = arrange_launch(kernels);
    const int longest = *std::max_element(chain.begin(), chain.end());
    if (single_tasks) {
      EXPECT_LE(launch.stretches, longest);
    } else {
      EXPECT_EQ(launch.stretches, longest);
    }
    // The place of each kernel: its step, and where in it.
    std::vector<std::pair<int, int>> place(kernels.size(), {-1, -1});
    int stretch = 0;
    for (std::size_t step = 0; step < launch.steps.size(); ++step) {
      EXPECT_GE(launch.steps[step].stretch, stretch);
      stretch = launch.steps[step].stretch;
      std::int64_t tasks = 0;
      int at = 0;
      for (const int kernel : launch.steps[step].kernels) {
        auto& mine = place[static_cast<std::size_t>(kernel)];
        EXPECT_EQ(mine.first, -1) << "twice";
        mine = {static_cast<int>(step), at++};
        EXPECT_EQ(launch.stretch_of[static_cast<std::size_t>(kernel)], stretch);
        tasks = std::max(tasks, kernels[static_cast<std::size_t>(kernel)].tasks);
      }
      EXPECT_EQ(launch.steps[step].tasks, tasks);
      EXPECT_TRUE(at == 1 || tasks <= 1);
    }
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      ASSERT_NE(place[i].first, -1) << "never";
      for (const int from : kernels[i].producers) {
        const auto producer = static_cast<std::size_t>(from);
        const bool same_step = place[i].first == place[producer].first;
        EXPECT_TRUE(same_step ? place[producer].second < place[i].second
                              : launch.stretch_of[producer] < launch.stretch_of[i]);
      }
    }
  }
}

// ---- runs ----

RunOptions in_one_launch() {
  RunOptions options;
  options.single_launch = true;
  return options;
}

// Two layers of an encoder: branches, norms, residuals, chains that reuse each other's memory, a
// result in the middle that is an output too.
std::string encoder() {
  std::string text = R"(graph g(%x: f32[b, s, 32], %g: f32[32]) {
  %w0 = constant {value = f32[32, 32] random 1}
  %w1 = constant {value = f32[32, 32] random 2}
  %w2 = constant {value = f32[32, 32] random 3}
  %up = constant {value = f32[32, 64] random 4}
  %down = constant {value = f32[64, 32] random 5}
)";
  std::string hidden = "%x";
  for (int layer = 0; layer < 2; ++layer) {
    text += fmt::format(R"(
  %q{1} = matmul({0}, %w0)
  %k{1} = matmul({0}, %w1)
  %v{1} = matmul({0}, %w2)
  %qt{1} = tanh(%q{1})
  %kt{1} = transpose(%k{1}) {{permutation = [0, 2, 1]}}
  %s{1} = matmul(%qt{1}, %kt{1})
  %p{1} = softmax(%s{1}) {{axis = -1}}
  %a{1} = matmul(%p{1}, %v{1})
  %r{1} = add(%a{1}, {0})
  %n{1} = layer_norm(%r{1}, %g) {{axis = -1, epsilon = 0.01}}
  %u{1} = matmul(%n{1}, %up)
  %e{1} = gelu(%u{1})
  %d{1} = matmul(%e{1}, %down)
  %h{1} = add(%d{1}, %n{1})
)",
                        hidden, layer);
    hidden = fmt::format("%h{}", layer);
  }
  return text + "  return %h1 as \"y\", %n0 as \"middle\"\n}";
}

class SingleLaunchRuns : public ::testing::TestWithParam<std::tuple<FusionLevel, int>> {};

// More threads than this kind of machine has cores, too.
INSTANTIATE_TEST_SUITE_P(Levels, SingleLaunchRuns,
                         ::testing::Combine(::testing::Values(FusionLevel::None, FusionLevel::Ops,
                                                              FusionLevel::Auto),
                                            ::testing::Values(1, 2, 7)));

TEST_P(SingleLaunchRuns, GiveTheSameToTheBit) {
  const auto& [level, threads] = GetParam();
  const std::string text = encoder();
  Executable model = compiled(text, threads, level);
  for (const auto& [b, s] : {std::pair{1, 1}, {1, 16}, {3, 5}, {2, 0}, {0, 3}, {1, 67}}) {
    const std::vector<Tensor> inputs = random_inputs(text, {{"b", b}, {"s", s}});
    RunStats apart_stats;
    const auto apart = model.run(inputs, &apart_stats);
    ASSERT_TRUE(apart) << apart.error().message;
    for (int round = 0; round < 20; ++round) {
      RunStats stats;
      const auto together = model.run(inputs, &stats, in_one_launch());
      ASSERT_TRUE(together) << together.error().message;
      expect_identical(*together, *apart);
      EXPECT_EQ(stats.kernels, apart_stats.kernels);
      EXPECT_EQ(stats.bytes_read, apart_stats.bytes_read);
      EXPECT_EQ(stats.bytes_written, apart_stats.bytes_written);
      EXPECT_EQ(apart_stats.launches, apart_stats.kernels);
      EXPECT_EQ(apart_stats.barriers, 0);
      EXPECT_EQ(stats.launches, 1);
      EXPECT_GT(stats.barriers, 0);
      // Q, K and V are two barriers less than a wait after each kernel.
      EXPECT_LT(stats.barriers, stats.kernels - 1);
      EXPECT_EQ(stats.barriers, model.launches({{"b", b}, {"s", s}}, true).value().barriers);
    }
  }
}

TEST(SingleLaunch, ServesSeveralCallersAtOnce) {
  const std::string text = encoder();
  Executable model = compiled(text, 3);
  std::vector<std::thread> callers;
  for (const int s : {1, 5, 16, 33}) {
    callers.emplace_back([&model, &text, s] {
      const std::vector<Tensor> inputs = random_inputs(text, {{"b", 1}, {"s", s}});
      const auto apart = model.run(inputs).value();
      for (int round = 0; round < 30; ++round) {
        expect_identical(model.run(inputs, nullptr, in_one_launch()).value(), apart);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

// A call reads what kernels wrote and they what it wrote, in the same launch.
TEST(SingleLaunch, TakesCallsAlong) {
  const std::string text = R"(graph g(%x: f32[n, 40]) {
    %a = tanh(%x)
    %v, %i = top_k(%a) {axis = 1, k = <5>, largest = 0}
    %e = exp(%v)
    %b = sigmoid(%x)
    %m = reduce_mean(%b) {axes = [1], keepdims = 1}
    %y = add(%e, %m)
    return %y as "y", %i as "i"
  })";
  for (const FusionLevel level : {FusionLevel::None, FusionLevel::Auto}) {
    Executable model = compiled(text, 2, level);
    const auto is_call = [](const ExecutableKernel& kernel) { return kernel.code == nullptr; };
    ASSERT_TRUE(std::any_of(model.kernels().begin(), model.kernels().end(), is_call));
    for (const int n : {0, 1, 9, 200}) {
      const std::vector<Tensor> inputs = random_inputs(text, {{"n", n}});
      RunStats stats;
      const auto together = model.run(inputs, &stats, in_one_launch());
      ASSERT_TRUE(together) << together.error().message;
      expect_identical(*together, model.run(inputs).value());
      EXPECT_EQ(stats.launches, 1);
    }
  }
}

// Attention of one query splits its keys over tasks, which count who is done. What they count in is
// zero when a kernel starts, though earlier kernels of the launch could have had the place.
TEST(SingleLaunch, CountersAreZeroWhereTheyAreUsed) {
  const std::string text = R"(graph g(%q: f32[b, 4, 1, 16], %k: f32[b, 2, t, 16],
                                      %v: f32[b, 2, t, 16]) {
    %a0 = attention(%q, %k, %v) {scale = 0.25, causal = "none"}
    %a1 = attention(%a0, %k, %v) {scale = 0.5, causal = "none"}
    %a2 = attention(%a1, %k, %v) {scale = 0.75, causal = "none"}
    %a3 = attention(%a2, %k, %v) {scale = 1.0, causal = "none"}
    return %a3 as "y"
  })";
  Executable model = compiled(text, 3);
  const auto counts = [](const ExecutableKernel& kernel) {
    return std::any_of(kernel.code->shared.begin(), kernel.code->shared.end(),
                       [](const auto& shared) { return shared.zeroed; });
  };
  ASSERT_EQ(model.kernels().size(), 4U);
  ASSERT_TRUE(std::all_of(model.kernels().begin(), model.kernels().end(), counts));
  for (const int t : {0, 1, 300, 2000}) {
    const std::vector<Tensor> inputs = random_inputs(text, {{"b", 3}, {"t", t}});
    const auto apart = model.run(inputs).value();
    for (int round = 0; round < 10; ++round) {
      expect_identical(model.run(inputs, nullptr, in_one_launch()).value(), apart);
    }
  }
}

// Two gathers may fail, the second of the plan in an earlier stretch; the error is that of the
// first, as when they run one after another, and the model is as good as before.
TEST(SingleLaunch, FailsAsKernelsOneAfterAnotherDo) {
  const std::string text = R"(graph g(%x: f32[n, 8], %i: i64[m], %j: i64[m]) {
    %t = tanh(%x)
    %s = softmax(%t) {axis = 0}
    %a = gather(%s, %i) {axis = 0} @"/first"
    %c = exp(%a)
    %b = gather(%x, %j) {axis = 0} @"/second"
    %d = exp(%b)
    %y = add(%c, %d)
    %z = softmax(%y) {axis = 0}
    return %z as "z"
  })";
  for (const FusionLevel level : {FusionLevel::None, FusionLevel::Auto}) {
    Executable model = compiled(text, 2, level);
    Tensor table = Tensor::allocate(DType::F32, {5, 8}).value();
    for (std::int64_t i = 0; i < 40; ++i) table.set_double(i, static_cast<double>(i) / 40);
    constexpr std::int64_t kIds = 300;
    const auto ids = [](std::int64_t at, std::int64_t id) {
      Tensor tensor = Tensor::allocate(DType::I64, {kIds}).value();
      for (std::int64_t i = 0; i < kIds; ++i) tensor.set_int(i, i % 5);
      tensor.set_int(at, id);
      return tensor;
    };
    const auto message = [&](const std::vector<Tensor>& inputs, const RunOptions& options) {
      const auto outputs = model.run(inputs, nullptr, options);
      return outputs ? std::string() : outputs.error().message;
    };
    for (const std::int64_t at : {std::int64_t{0}, std::int64_t{150}, kIds - 1}) {
      for (const auto& [first, second] : {std::pair{7, 0}, {0, 7}, {7, 7}, {0, 0}}) {
        const std::vector inputs = {table, ids(at, first), ids(at, second)};
        const std::string expected = message(inputs, {});
        EXPECT_EQ(expected.empty(), first + second == 0);
        for (int round = 0; round < 20; ++round) {
          EXPECT_EQ(message(inputs, in_one_launch()), expected);
        }
      }
    }
  }
}

TEST(SingleLaunch, TimesEachKernelWhenAsked) {
  const std::string text = encoder();
  Executable model = compiled(text, 2, FusionLevel::None);
  RunOptions options = in_one_launch();
  options.profile = true;
  RunStats stats;
  ASSERT_TRUE(model.run(random_inputs(text, {{"b", 2}, {"s", 64}}), &stats, options));
  ASSERT_EQ(stats.by_kernel.size(), static_cast<std::size_t>(stats.kernels));
  for (const KernelStats& kernel : stats.by_kernel) EXPECT_GT(kernel.seconds, 0);
}

// What an observer sees of a kernel is there after it, in the plan's order.
TEST(SingleLaunch, AnObserverStillSeesKernelsOneByOne) {
  const std::string text = encoder();
  Executable model = compiled(text, 2);
  RunOptions options = in_one_launch();
  std::vector<std::string> seen;
  options.observer = [&](const Kernel& kernel, const auto&...) -> Status {
    seen.push_back(kernel.name);
    return {};
  };
  RunStats stats;
  ASSERT_TRUE(model.run(random_inputs(text, {{"b", 1}, {"s", 4}}), &stats, options));
  std::vector<std::string> names;
  for (const Kernel& kernel : model.plan().kernels) names.push_back(kernel.name);
  EXPECT_EQ(seen, names);
  EXPECT_EQ(stats.launches, stats.kernels);
}

TEST(SingleLaunch, AModelWithoutKernelsIsNoLaunch) {
  Executable model = compiled(R"(graph g(%x: f32[n]) { return %x as "x" })", 2);
  const auto inputs = std::vector{random_tensor({DType::F32, {Dim(3)}}, {3}, 1)};
  RunStats stats;
  expect_identical(model.run(inputs, &stats, in_one_launch()).value(), inputs);
  EXPECT_EQ(stats.launches, 0);
  EXPECT_EQ(stats.barriers, 0);
}

}  // namespace
}  // namespace opweld::testing
