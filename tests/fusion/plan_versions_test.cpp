// Plans for sizes that only a run knows: how many there are, and from which sizes on each is run.
#include "fusion/plan_versions.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "fusion/cost.h"
#include "fusion/planning.h"

namespace opweld::testing {
namespace {

using ::testing::SizeIs;

constexpr int kCores = 2;

// What chains ask for follows from the processor, so a test brings its own.
Target two_cores() {
  Target target = host_target();
  target.cores = kCores;
  target.peak_flops = 100e9;
  target.bandwidth = 20e9;
  target.cache_bandwidth = 40e9;
  target.l2_bytes = 1 << 20;
  target.passed_on_bytes = 2 << 20;
  return target;
}

std::vector<FusionPlan> versions_of(const Graph& graph, const Target& target,
                                    const KernelOracle& oracle, PlanOptions options = {}) {
  options.target = &target;
  options.oracle = oracle;
  auto plans = plan_versions(graph, options);
  EXPECT_TRUE(plans) << plans.error().message;
  return std::move(*plans);
}

std::vector<FusionPlan> versions_of(const Graph& graph, const Target& target) {
  return versions_of(graph, target, schedules_for(target));
}

const FusionPlan& plan_for(const std::vector<FusionPlan>& plans, const Bindings& sizes) {
  return *std::ranges::find_if(plans, [&](const FusionPlan& plan) { return plan.is_for(sizes); });
}

// Layers as an encoder has them, with a softmax over all rows where the attention would be: no
// kernel holds what is before it and what is behind, but one may reach over into the next layer.
std::string encoder(const std::string& rows, int width, int layers) {
  std::string text = fmt::format("graph g(%x0: f32[{}, {}]) {{\n", rows, width);
  for (int i = 0; i < layers; ++i) {
    text += fmt::format(R"(
      %q{0} = constant {{value = f32[{2}, {2}] random 1}}
      %p{0} = constant {{value = f32[{2}, {2}] random 2}}
      %u{0} = constant {{value = f32[{2}, {3}] random 3}}
      %d{0} = constant {{value = f32[{3}, {2}] random 4}}
      %g{0} = constant {{value = f32[{2}] random 5}}
      %i{0} = matmul(%x{0}, %q{0})
      %t{0} = softmax(%i{0}) {{axis = 0}}
      %a{0} = matmul(%t{0}, %p{0})
      %b{0} = add(%a{0}, %x{0})
      %n{0} = rms_norm(%b{0}, %g{0}) {{axis = -1, epsilon = 1e-05}}
      %c{0} = matmul(%n{0}, %u{0})
      %s{0} = silu(%c{0})
      %e{0} = matmul(%s{0}, %d{0})
      %r{0} = add(%e{0}, %n{0})
      %x{1} = rms_norm(%r{0}, %g{0}) {{axis = -1, epsilon = 1e-05}}
    )",
                        i, i + 1, width, 4 * width);
  }
  return text + fmt::format("return %x{} as \"y\"\n}}", layers);
}

Graph parsed(const std::string& text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().message;
  return graph ? std::move(*graph) : Graph();
}

// Rows of all kinds: few and many, and those around where each plan begins.
std::set<std::int64_t> rows_of_all_bands(const std::vector<FusionPlan>& plans) {
  std::set<std::int64_t> rows;
  for (std::int64_t some = 1; some < 1500; some += 1 + some / 6) rows.insert(some);
  for (const FusionPlan& plan : plans) {
    for (const SizeCondition& each : plan.conditions) {
      for (const int beside : {-2, -1, 0, 1, 2, 3}) rows.insert(each.least * kCores + beside);
    }
  }
  return rows;
}

TEST(PlanVersions, AreForEveryNumberOfRowsInAsFewKernelsAsIfItWereKnown) {
  const Target target = two_cores();
  for (const int width : {64, 192, 512}) {
    const Graph graph = parsed(encoder("s", width, 2));
    const std::vector<FusionPlan> plans = versions_of(graph, target);
    EXPECT_GE(plans.size(), 2U);
    for (const std::int64_t rows : rows_of_all_bands(plans)) {
      const Graph known = parsed(encoder(std::to_string(rows), width, 2));
      const std::vector<FusionPlan> alone = versions_of(known, target);
      ASSERT_THAT(alone, SizeIs(1));
      EXPECT_LE(plan_for(plans, {{"s", rows}}).kernels.size(), alone.front().kernels.size())
          << width << " wide, " << rows << " rows";
    }
  }
}

TEST(PlanVersions, KnowOfEachOther) {
  const Graph graph = parsed(encoder("s", 192, 2));
  const std::vector<FusionPlan> plans = versions_of(graph, two_cores());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    EXPECT_EQ(plans[i].version, i);
    ASSERT_THAT(plans[i].versions, SizeIs(plans.size()));
    for (std::size_t j = 0; j < plans.size(); ++j) {
      EXPECT_EQ(plans[i].versions[j].kernels, static_cast<std::int64_t>(plans[j].kernels.size()));
      EXPECT_EQ(plans[i].versions[j].conditions.size(), plans[j].conditions.size());
    }
  }
  const std::vector<FusionPlan> alone = versions_of(parsed(encoder("9", 192, 2)), two_cores());
  EXPECT_THAT(alone.front().versions, SizeIs(0));
}

// Pairs of matmuls that nothing connects, of which each is a chain from a number of rows on. The
// real schedules make them; how long their weights take to come is said here.
class Pairs {
 public:
  explicit Pairs(std::vector<std::int64_t> rows) : rows_(std::move(rows)) {
    std::string inputs;
    std::string body;
    std::string outputs;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      inputs += fmt::format("{}%x{}: f32[s, {}]", i == 0 ? "" : ", ", i, width(i));
      body += fmt::format(R"(
        %v{0} = constant {{value = f32[{1}, {1}] random 1}}
        %w{0} = constant {{value = f32[{1}, {1}] random 2}}
        %a{0} = matmul(%x{0}, %v{0})
        %y{0} = matmul(%a{0}, %w{0})
      )",
                          i, width(i));
      outputs += fmt::format("{}%y{} as \"y{}\"", i == 0 ? "" : ", ", i, i);
    }
    graph_ = parsed(fmt::format("graph g({}) {{\n{}return {}\n}}", inputs, body, outputs));
    plans_ = versions_of(graph_, target_, oracle());
  }

  [[nodiscard]] const std::vector<FusionPlan>& plans() const { return plans_; }

  // From how many rows on a plan is run, with more rows first; 0 for any sizes.
  [[nodiscard]] std::vector<std::int64_t> beginnings() const {
    std::vector<std::int64_t> rows;
    for (const FusionPlan& plan : plans_) {
      rows.push_back(0);
      for (const SizeCondition& each : plan.conditions) {
        rows.back() = std::max(rows.back(), each.least);
      }
    }
    return rows;
  }

  // How many chains there are in the plan that a run with so many rows of a task takes.
  [[nodiscard]] std::size_t chains_at(std::int64_t rows) const {
    const FusionPlan& plan = plan_for(plans_, {{"s", rows * kCores}});
    return 2 * rows_.size() - plan.kernels.size();
  }

 private:
  static int width(std::size_t pair) { return 16 * static_cast<int>(pair + 1); }

  // A chain pays from the rows on whose products take kCover times as long as its weights take to
  // come from a cache (legality/chain_cost.cpp).
  KernelOracle oracle() {
    KernelOracle real = schedules_for(target_);
    return [this, real = std::move(real)](const Kernel& kernel) -> Expected<KernelEstimate> {
      auto estimate = real(kernel);
      if (!estimate || kernel.kind != KernelKind::Chain) return estimate;
      const std::int64_t wide = *kernel.outputs.front()->shape().back().constant();
      const auto pair = static_cast<std::size_t>(wide / 16 - 1);
      estimate->pressure.rows_per_task =
          min(ceil_div(kernel.outputs.front()->shape().front(), Dim(kCores)), Dim(kMostRows));
      estimate->pressure.rows_per_weight = estimate->pressure.rows_per_task;
      estimate->work = [this, pair](const Bindings& sizes) -> Expected<Work> {
        const std::int64_t rows = std::min(sizes.find("s").value() / kCores, kMostRows);
        Work work;
        work.tasks = kCores;
        work.vector_multiply_adds = kMultiplyAdds * static_cast<double>(rows * kCores);
        const double row_seconds = 2 * kMultiplyAdds / (kReachedOfFlops * target_.peak_flops);
        const double asked = static_cast<double>(rows_[pair]) - 0.5;
        work.streamed_weight_bytes =
            row_seconds * asked / kCover * target_.cache_bandwidth * kCores;
        return work;
      };
      return estimate;
    };
  }

  static constexpr double kCover = 4;
  static constexpr double kMultiplyAdds = 1000;  // of a row
  static constexpr std::int64_t kMostRows = 4096;

  Target target_ = two_cores();
  std::vector<std::int64_t> rows_;
  Graph graph_;
  std::vector<FusionPlan> plans_;
};

TEST(PlanVersions, BeginWhereAChainAsksForRows) {
  const Pairs pairs({20, 60, 60, 200});
  EXPECT_EQ(pairs.beginnings(), (std::vector<std::int64_t>{200, 60, 20, 0}));
  const std::map<std::int64_t, std::size_t> chains = {{1, 0},  {19, 0},  {20, 1},  {59, 1},
                                                      {60, 3}, {199, 3}, {200, 4}, {5000, 4}};
  for (const auto& [rows, number] : chains) EXPECT_EQ(pairs.chains_at(rows), number) << rows;
}

TEST(PlanVersions, AreOneForChainsThatAskForAlmostTheSame) {
  const Pairs pairs({40, 43, 45, 46});
  EXPECT_EQ(pairs.beginnings(), (std::vector<std::int64_t>{46, 40, 0}));
  EXPECT_EQ(pairs.chains_at(39), 0U);
  EXPECT_EQ(pairs.chains_at(40), 3U);
  EXPECT_EQ(pairs.chains_at(46), 4U);
}

TEST(PlanVersions, AreNoMoreThanTheBound) {
  const Pairs pairs({8, 16, 32, 64, 128, 256, 512, 1024, 2048});
  const std::vector<std::int64_t> beginnings = pairs.beginnings();
  ASSERT_THAT(beginnings, SizeIs(kMostVersions));
  EXPECT_TRUE(std::ranges::is_sorted(beginnings, std::greater()));
  EXPECT_EQ(beginnings.back(), 0);
  // All that pays is made where everything pays, and nothing where nothing does.
  EXPECT_EQ(pairs.chains_at(1 << 12), 9U);
  EXPECT_EQ(pairs.chains_at(4), 0U);
  const std::int64_t asked[] = {8, 16, 32, 64, 128, 256, 512, 1024, 2048};
  for (std::int64_t rows = 1; rows < 5000; rows += 7) {
    const auto paying = std::ranges::count_if(asked, [&](auto each) { return each <= rows; });
    EXPECT_LE(pairs.chains_at(rows), static_cast<std::size_t>(paying)) << rows;
  }
}

// The plan that is missed least: of bands of rows that are as wide, that in which one chain is made
// and not that in which three are.
TEST(PlanVersions, LeaveOutWhatCostsLeast) {
  const Pairs pairs({8, 8, 8, 16, 16, 16, 32, 64, 64, 64, 128, 128, 128, 256});
  EXPECT_EQ(pairs.beginnings(), (std::vector<std::int64_t>{256, 128, 64, 16, 8, 0}));
}

// Kernels by what they hold, of each version.
std::vector<std::map<std::string, int>> kernels_of(const std::string& text, FusionLevel level,
                                                   std::int64_t search_questions) {
  const Graph graph = parsed(text);
  const Target target = two_cores();
  PlanOptions options;
  options.level = level;
  options.search_questions = search_questions;
  std::vector<std::map<std::string, int>> versions;
  for (const FusionPlan& plan : versions_of(graph, target, schedules_for(target), options)) {
    auto& kernels = versions.emplace_back();
    for (const Kernel& kernel : plan.kernels) {
      ++kernels[fmt::format("{} {}", to_string(kernel.kind), kernel.label)];
    }
  }
  return versions;
}

std::map<std::string, int> added(const std::map<std::string, int>& before,
                                 std::map<std::string, int> after) {
  for (const auto& [kernel, count] : before) after[kernel] -= count;
  std::erase_if(after, [](const auto& each) { return each.second == 0; });
  return after;
}

// Kernels reach over from one layer into the next, so that the first and the last have others; but
// in every plan, and however little may be searched, those between are cut alike.
TEST(PlanVersions, EachFurtherLayerHasTheKernelsOfTheOneBefore) {
  for (const FusionLevel level : {FusionLevel::Ops, FusionLevel::Auto}) {
    for (const std::int64_t questions : {0, 1000}) {
      SCOPED_TRACE(fmt::format("level {}, {} questions", static_cast<int>(level), questions));
      const auto kernels = [&](int layers) {
        return kernels_of(encoder("s", 192, layers), level, questions);
      };
      const auto three = kernels(3);
      const auto four = kernels(4);
      const auto nine = kernels(9);
      ASSERT_EQ(four.size(), three.size());
      ASSERT_EQ(nine.size(), three.size());
      for (std::size_t i = 0; i < three.size(); ++i) {
        auto layer = added(three[i], four[i]);
        EXPECT_FALSE(layer.empty());
        for (auto& [kernel, count] : layer) count *= 5;
        EXPECT_EQ(added(four[i], nine[i]), layer);
      }
    }
  }
}

TEST(PlanVersions, AreTheSameEachTime) {
  const Graph graph = parsed(encoder("s", 192, 3));
  const auto text = [&] {
    std::string all;
    for (const FusionPlan& plan : versions_of(graph, two_cores())) all += to_text(plan);
    return all;
  };
  EXPECT_EQ(text(), text());
}

}  // namespace
}  // namespace opweld::testing
