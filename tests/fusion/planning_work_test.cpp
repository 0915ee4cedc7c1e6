// Planning asks schedules as many questions as a graph has nodes, times a number; not seconds but
// questions are counted, so that it is the same wherever it runs.
#include <cmath>

#include "fusion/planning.h"
#include "fusion/random_model.h"
#include "fusion/search_memory.h"

namespace opweld::testing {
namespace {

struct Asked {
  std::size_t nodes = 0;
  std::int64_t questions = 0;  // of the planner
  std::int64_t lowered = 0;    // structures that a schedule was tried on
  std::int64_t lowered_nodes = 0;
  SearchAccount search;
  std::string plan;
};

Asked planned(const Graph& graph, std::int64_t budget = PlanOptions().search_questions,
              std::int64_t of_node = PlanOptions().search_questions_of_node) {
  const Target target = host_target();
  Asked asked;
  PlanOptions options;
  options.target = &target;
  options.rows_granted = HUGE_VAL;
  options.search_questions = budget;
  options.search_questions_of_node = of_node;
  options.oracle = remembered([&](const Graph& group, KernelKind kind) {
    ++asked.lowered;
    asked.lowered_nodes += static_cast<std::int64_t>(group.num_nodes());
    return tile::lower(group, kind, {&target, false}, "group").map([&](tile::LoweredKernel kernel) {
      return tile::estimate(std::move(kernel), target);
    });
  });
  const auto plan = plan_fusion(graph, options);
  EXPECT_TRUE(plan) << plan.error().message;
  if (!plan) return asked;
  asked.nodes = graph.num_nodes();
  asked.search = plan->search;
  asked.questions = plan->search.questions;
  asked.plan = to_text(*plan);
  return asked;
}

TEST(PlanningWork, GrowsWithTheGraphAndNoFaster) {
  for (const unsigned seed : {1U, 2U, 3U}) {
    const Asked small = planned(RandomModel(seed, 150).make());
    const Asked large = planned(RandomModel(seed, 1200).make());
    const double times = static_cast<double>(large.nodes) / static_cast<double>(small.nodes);
    EXPECT_GT(times, 6);
    const auto ratio = [](std::int64_t a, std::int64_t b) {
      return static_cast<double>(a) / static_cast<double>(b);
    };
    // Small graphs are searched through, large ones as far as the questions reach.
    EXPECT_LT(ratio(large.questions, small.questions), 1.5 * times);
    EXPECT_LT(ratio(large.lowered, small.lowered), 1.5 * times);
    EXPECT_LT(ratio(large.lowered_nodes, small.lowered_nodes), 1.5 * times);
    const auto nodes = static_cast<std::int64_t>(large.nodes);
    EXPECT_LT(large.questions, 60 * nodes);
    EXPECT_LT(large.lowered, 10 * nodes);
  }
}

TEST(PlanningWork, OfValuesThatAreReadTwiceAtEveryStepDoesNotDouble) {
  // As many ways lead from the first to the last as there are numbers of 48 bits.
  std::string text = "graph g(%v0: f32[64, 64]) {\n";
  constexpr int kSteps = 48;
  for (int i = 0; i < kSteps; ++i) {
    text += fmt::format("  %v{} = {}(%v{}, %v{})\n", i + 1, i % 2 == 0 ? "mul" : "sub", i, i);
  }
  text += fmt::format("  %s = reduce_max(%v{0}) {{axes = [1], keepdims = 1}}\n", kSteps);
  text += fmt::format("  %y = div(%v{0}, %s)\n  return %y as \"y\"\n}}", kSteps);
  const auto graph = parse_graph(text);
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(planned(*graph).plan.substr(0, 10), "0 row: mul");
}

TEST(PlanningWork, OfASearchThatMayAskNothingIsGreedys) {
  const Graph graph = RandomModel(5, 200).make();
  const Asked none = planned(graph, 0, 0);
  EXPECT_EQ(none.search.regions, 0);
  EXPECT_EQ(none.search.improved, 0);
  EXPECT_GT(none.search.passed_over, 0) << "the account says that the search was cut short";
  constexpr double kRounding = 1e-9;
  EXPECT_LE(none.search.seconds, none.search.greedy_seconds * (1 + kRounding));
}

TEST(PlanningWork, MoreQuestionsMakeNoWorsePlans) {
  constexpr double kRounding = 1e-9;
  const Graph graph = RandomModel(5, 200).make();
  const Asked all = planned(graph, 1 << 20, 0);
  EXPECT_EQ(all.search.passed_over, 0);
  EXPECT_GT(all.search.improved, 0);
  EXPECT_LT(all.search.seconds, all.search.greedy_seconds);
  for (const std::int64_t budget : {30, 100, 300}) {
    const Asked some = planned(graph, budget, 0);
    EXPECT_GT(some.search.regions, 0);
    EXPECT_GT(some.search.passed_over, 0);
    EXPECT_LT(some.search.regions, all.search.regions);
    EXPECT_LE(some.search.seconds, some.search.greedy_seconds * (1 + kRounding));
    EXPECT_LE(some.questions, all.questions);
    EXPECT_EQ(planned(graph, budget, 0).plan, some.plan) << "the same each time";
  }
}

// Of a graph whose sizes are free, by the rows that tasks are granted.
TEST(PlanningWork, OfOneSizeIsNotDoneAgainForOthers) {
  const Target target = host_target();
  std::int64_t remembering = 0;
  std::int64_t forgetting = 0;
  int improved = 0;
  for (unsigned seed = 0; seed < 10; ++seed) {
    const Graph graph = RandomModel(seed, 60).make();
    SearchMemory memory;
    for (const double rows : {0.0, 40.0, 64.0, 80.0, HUGE_VAL}) {
      const auto plan = [&](SearchMemory* kept) {
        PlanOptions options;
        options.target = &target;
        options.rows_granted = rows;
        options.memory = kept;
        options.oracle = schedules_for(target);
        auto made = plan_fusion(graph, options);
        EXPECT_TRUE(made) << made.error().message;
        return made ? std::move(*made) : FusionPlan();
      };
      const FusionPlan anew = plan(nullptr);
      const FusionPlan remembered = plan(&memory);
      EXPECT_EQ(to_text(remembered), to_text(anew)) << "seed " << seed << ", rows " << rows;
      EXPECT_EQ(remembered.more_from_rows, anew.more_from_rows);
      EXPECT_EQ(remembered.search.improved, anew.search.improved);
      improved += anew.search.improved;
      remembering += remembered.search.questions;
      forgetting += anew.search.questions;
    }
  }
  EXPECT_GT(improved, 0);
  EXPECT_LT(remembering, forgetting);
}

}  // namespace
}  // namespace opweld::testing
