#include "fusion/plan_record.h"

#include <nlohmann/json.hpp>
#include <random>

#include "fusion/plan_versions.h"
#include "fusion/planning.h"
#include "fusion/random_model.h"

namespace opweld::testing {
namespace {

constexpr unsigned kGraphs = 100;

void expect_equal(const Verdict& a, const Verdict& b) {
  EXPECT_EQ(a.value, b.value);
  EXPECT_EQ(a.producer, b.producer);
  EXPECT_EQ(a.consumer, b.consumer);
  EXPECT_EQ(a.code, b.code);
  EXPECT_EQ(a.detail, b.detail);
  EXPECT_EQ(a.bytes_saved, b.bytes_saved);
  EXPECT_EQ(a.flops_added, b.flops_added);
  EXPECT_EQ(a.kernel, b.kernel);
}

void expect_equal(const Kernel& a, const Kernel& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.nodes, b.nodes);
  EXPECT_EQ(a.recomputed, b.recomputed);
  EXPECT_EQ(a.inputs, b.inputs);
  EXPECT_EQ(a.constants, b.constants);
  EXPECT_EQ(a.outputs, b.outputs);
  EXPECT_EQ(a.scope, b.scope);
  EXPECT_EQ(a.label, b.label);
}

void expect_equal(const FusionPlan& a, const FusionPlan& b) {
  EXPECT_EQ(a.level, b.level);
  EXPECT_EQ(a.more_from_rows, b.more_from_rows);
  EXPECT_EQ(a.search.greedy_seconds, b.search.greedy_seconds);
  EXPECT_EQ(a.search.seconds, b.search.seconds);
  EXPECT_EQ(a.search.regions, b.search.regions);
  EXPECT_EQ(a.search.improved, b.search.improved);
  EXPECT_EQ(a.search.siblings, b.search.siblings);
  EXPECT_EQ(a.search.statistics, b.search.statistics);
  EXPECT_EQ(a.search.passed_over, b.search.passed_over);
  EXPECT_EQ(a.search.questions, b.search.questions);
  ASSERT_EQ(a.conditions.size(), b.conditions.size());
  for (std::size_t i = 0; i < a.conditions.size(); ++i) {
    EXPECT_EQ(a.conditions[i].size, b.conditions[i].size);
    EXPECT_EQ(a.conditions[i].least, b.conditions[i].least);
    EXPECT_EQ(a.conditions[i].what, b.conditions[i].what);
  }
  ASSERT_EQ(a.kernels.size(), b.kernels.size());
  for (std::size_t i = 0; i < a.kernels.size(); ++i) expect_equal(a.kernels[i], b.kernels[i]);
  ASSERT_EQ(a.aliases.size(), b.aliases.size());
  for (std::size_t i = 0; i < a.aliases.size(); ++i) {
    EXPECT_EQ(a.aliases[i].result, b.aliases[i].result);
    EXPECT_EQ(a.aliases[i].source, b.aliases[i].source);
  }
  ASSERT_EQ(a.verdicts.size(), b.verdicts.size());
  for (std::size_t i = 0; i < a.verdicts.size(); ++i) expect_equal(a.verdicts[i], b.verdicts[i]);
  ASSERT_EQ(a.recomputations.size(), b.recomputations.size());
  for (std::size_t i = 0; i < a.recomputations.size(); ++i) {
    EXPECT_EQ(a.recomputations[i].value, b.recomputations[i].value);
    EXPECT_EQ(a.recomputations[i].kernels, b.recomputations[i].kernels);
    EXPECT_EQ(a.recomputations[i].bytes_saved, b.recomputations[i].bytes_saved);
    EXPECT_EQ(a.recomputations[i].flops_added, b.recomputations[i].flops_added);
  }
}

std::vector<FusionPlan> plans_of(const Graph& graph) {
  const Target target = host_target();
  PlanOptions options;
  options.target = &target;
  options.oracle = schedules_for(target);
  return plan_versions(graph, options).value();
}

TEST(PlanRecord, GivesBackEveryPartOfEveryPlan) {
  int versions = 0;
  int conditions = 0;
  std::size_t recomputations = 0;
  for (unsigned seed = 0; seed < kGraphs; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = RandomModel(seed).make();
    const std::vector<FusionPlan> plans = plans_of(graph);
    const auto read = parse_plan_record(graph, plan_record(graph, plans));
    ASSERT_TRUE(read);
    ASSERT_EQ(read->size(), plans.size());
    for (std::size_t i = 0; i < plans.size(); ++i) {
      expect_equal(plans[i], (*read)[i]);
      conditions += static_cast<int>(plans[i].conditions.size());
      recomputations += plans[i].recomputations.size();
    }
    versions += static_cast<int>(plans.size());
  }
  EXPECT_GT(versions, static_cast<int>(kGraphs)) << "some graphs have two plans";
  EXPECT_GT(conditions, 0);
  EXPECT_GT(recomputations, 0U);
}

// One kernel, and one verdict.
Graph exponential_and_sign() {
  return parse_graph(R"(graph g(%x: f32[n]) {
    %y = exp(%x)
    %z = neg(%y)
    return %z as "z"
  })")
      .value();
}

// Sizes that were given up as too large to say are nobody's to compare.
TEST(PlanRecord, ReadsSizesBeyondEveryShape) {
  const Graph graph = exponential_and_sign();
  std::vector<FusionPlan> plans = plans_of(graph);
  plans[0].verdicts[0].flops_added = Dim::overflow();
  const auto read = parse_plan_record(graph, plan_record(graph, plans));
  ASSERT_TRUE(read);
  EXPECT_TRUE((*read)[0].verdicts[0].flops_added.is_overflow());
}

TEST(PlanRecord, OfAnotherGraphIsRefused) {
  const Graph graph = RandomModel(1).make();
  const std::string record = plan_record(graph, plans_of(graph));
  EXPECT_FALSE(parse_plan_record(RandomModel(2).make(), record));
}

// Whatever stands in the text, the answer is a sound plan or none.
TEST(PlanRecord, WhatIsNoRecordIsRefused) {
  const Graph graph = RandomModel(3).make();
  const std::string record = plan_record(graph, plans_of(graph));
  for (const char* text : {"", "{}", "[]", "null", "[1]", "[{}]", "\xff"}) {
    EXPECT_FALSE(parse_plan_record(graph, text)) << text;
  }
  std::mt19937 random(1);
  constexpr int kMutations = 2000;
  for (int i = 0; i < kMutations; ++i) {
    std::string text = record;
    const auto at = static_cast<std::size_t>(random()) % text.size();
    text[at] = "0123456789-[]{},\"a"[random() % 18];
    if (i % 4 == 0) text.resize(at);
    const auto read = parse_plan_record(graph, text);
    if (!read) continue;
    for (const FusionPlan& plan : *read) ASSERT_EQ(check_plan(graph, plan), "");
  }
}

// Verdicts are told by whoever reads them: of operators, by a code, in a kernel that there is.
TEST(PlanRecord, VerdictsSpeakOfWhatThereIs) {
  const Graph graph = exponential_and_sign();
  const std::vector<FusionPlan> plans = plans_of(graph);
  ASSERT_EQ(plans[0].verdicts.size(), 1U);
  nlohmann::json record = nlohmann::json::parse(plan_record(graph, plans));
  const auto reads = [&](std::size_t part, const nlohmann::json& value) {
    nlohmann::json changed = record;
    changed[0]["verdicts"][0][part] = value;
    return parse_plan_record(graph, changed.dump()).has_value();
  };
  constexpr std::size_t kProducer = 1;
  constexpr std::size_t kConsumer = 2;
  constexpr std::size_t kCode = 3;
  constexpr std::size_t kKernel = 7;
  EXPECT_TRUE(reads(kProducer, 0));
  EXPECT_FALSE(reads(kProducer, -1));
  EXPECT_FALSE(reads(kConsumer, -1));
  EXPECT_FALSE(reads(kConsumer, 2));
  EXPECT_FALSE(reads(kCode, 100));
  EXPECT_TRUE(reads(kKernel, -1));
  EXPECT_FALSE(reads(kKernel, -2));
  EXPECT_FALSE(reads(kKernel, 1));
  record[0]["level"] = 3;
  EXPECT_FALSE(parse_plan_record(graph, record.dump()));
}

// Numbers that are places of other things than what stands there.
TEST(PlanRecord, KernelsHaveNodesAndAliasesAreReshapes) {
  const Graph graph = parse_graph(R"(graph g(%x: f32[n, 2]) {
    %c = constant {value = f32[] splat 1.0}
    %y = add(%x, %c)
    %z = reshape(%x) {shape = <2*n>}
    return %y as "y", %z as "z"
  })")
                          .value();
  const std::string record = plan_record(graph, plans_of(graph));
  const auto reads = [&](std::string_view from, std::string_view to) {
    std::string text = record;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from << " in " << text;
    return at != std::string::npos &&
           parse_plan_record(graph, text.replace(at, from.size(), to)).has_value();
  };
  EXPECT_TRUE(reads("[1]", "[1]"));
  EXPECT_FALSE(reads("[1]", "[-1]"));
  EXPECT_FALSE(reads("[1]", "[0]"));
  EXPECT_FALSE(reads("[1]", "[]"));
  EXPECT_FALSE(reads("[1]", "[1,0]"));
  EXPECT_TRUE(reads("[[[2,0],[-1,0]]]", "[[[2,0],[-1,0]]]"));
  EXPECT_FALSE(reads("[[[2,0],[-1,0]]]", "[[[-1,0],[-1,0]]]"));
  EXPECT_FALSE(reads("[[[2,0],[-1,0]]]", "[[[2,0],[0,0]]]"));
  EXPECT_FALSE(reads("[[[2,0],[-1,0]]]", "[[[1,0],[-1,0]]]"));
}

TEST(PlanRecord, TheKeyHoldsAllThatPlansDependOn) {
  const Target target = host_target();
  PlanOptions options;
  options.target = &target;
  const auto graph = [](const char* size, int seed = 1, double factor = 2) {
    return parse_graph(fmt::format(R"(graph g(%x: f32[n, {0}]) {{
      %c = constant {{value = f32[{0}] random {1}}}
      %f = constant {{value = f32[] {{{2:.1f}}}}}
      %z = add(%x, %c)
      %y = mul(%z, %f)
      return %y as "y"
    }})",
                                   size, seed, factor))
        .value();
  };
  const std::string key = planning_key(graph("100"), options, "");
  EXPECT_EQ(planning_key(graph("100"), options, ""), key);
  EXPECT_NE(planning_key(graph("101"), options, ""), key);
  EXPECT_NE(planning_key(graph("100"), options, "strict"), key);
  // Not on what weights were trained to, but on numbers.
  EXPECT_EQ(planning_key(graph("100", 2), options, ""), key);
  EXPECT_NE(planning_key(graph("100", 1, 3), options, ""), key);
  const auto differs = [&](const auto& change) {
    PlanOptions other = options;
    Target other_target = target;
    other.target = &other_target;
    change(other, other_target);
    EXPECT_NE(planning_key(graph("100"), other, ""), key);
  };
  differs([](PlanOptions& other, Target&) { other.level = FusionLevel::Ops; });
  differs([](PlanOptions& other, Target&) { other.rules = RuleSet::Linear; });
  differs([](PlanOptions& other, Target&) { other.without = {KernelKind::Chain}; });
  differs([](PlanOptions& other, Target&) { ++other.max_nodes; });
  differs([](PlanOptions& other, Target&) { ++other.max_tensors; });
  differs([](PlanOptions& other, Target&) { ++other.nominal_size; });
  differs([](PlanOptions& other, Target&) { other.attention_chains = true; });
  differs([](PlanOptions& other, Target&) { other.chains_of_any_rows = true; });
  differs([](PlanOptions& other, Target&) { other.search = false; });
  differs([](PlanOptions&, Target& other) { other.features += ",+sse"; });
  differs([](PlanOptions&, Target& other) { ++other.cores; });
  differs([](PlanOptions&, Target& other) { other.l2_bytes *= 2; });
  differs([](PlanOptions&, Target& other) { other.bandwidth *= 2; });
}

}  // namespace
}  // namespace opweld::testing
