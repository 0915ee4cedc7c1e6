// Schedules are not asked about merges that are as plain as can be, and plans are what they would
// be if they were.
#include "fusion/foreseen.h"

#include "fusion/planning.h"

namespace opweld::testing {
namespace {

struct Planned {
  FusionPlan plan;
  std::int64_t asked = 0;
};

// With an oracle that refuses kernels of this kind and more than so many nodes.
Planned planned(const Graph& graph, KernelKind kind = KernelKind::Map, std::size_t most = 1000) {
  static const Target target = host_target();
  Planned result;
  PlanOptions options;
  options.target = &target;
  const KernelOracle schedules = schedules_for(target);
  options.oracle = [&](const Kernel& kernel) -> Expected<KernelEstimate> {
    ++result.asked;
    if (kernel.kind == kind && kernel.nodes.size() > most) return fail("it is too large");
    return schedules(kernel);
  };
  auto plan = plan_fusion(graph, options);
  EXPECT_TRUE(plan) << plan.error().message;
  if (plan) result.plan = std::move(*plan);
  return result;
}

Graph chain_of(int operators, const std::string& op, const std::string& attributes) {
  std::string text = "graph g(%v0: f32[n, 256]) {\n";
  for (int i = 0; i < operators; ++i) {
    text += fmt::format("  %v{} = {}(%v{}){}\n", i + 1, i % 2 == 0 ? "tanh" : op, i,
                        i % 2 == 0 ? "" : attributes);
  }
  text += fmt::format("  return %v{} as \"y\"\n}}", operators);
  return parse_graph(text).value();
}

TEST(Foreseen, PlainMergesAreNotAskedAbout) {
  for (const auto& [op, attributes] : {std::pair("neg", ""), std::pair("softmax", " {axis = 1}")}) {
    const Planned all = planned(chain_of(40, op, attributes));
    EXPECT_EQ(all.plan.kernels.size(), 1U);
    EXPECT_LT(all.asked, 10) << op;
  }
}

TEST(Foreseen, WhatIsNotAsForeseenIsMergedAnew) {
  for (const std::size_t most : {1U, 2U, 3U, 7U, 39U}) {
    const Planned some = planned(chain_of(40, "neg", ""), KernelKind::Map, most);
    EXPECT_EQ(some.plan.kernels.size(), (40 + most - 1) / most);
    for (const Kernel& kernel : some.plan.kernels) EXPECT_LE(kernel.nodes.size(), most);
    bool any_refused = false;
    for (const Verdict& verdict : some.plan.verdicts) {
      if (verdict.code == ReasonCode::Fused) continue;
      any_refused = true;
      EXPECT_EQ(verdict.code, ReasonCode::Domain);
      EXPECT_EQ(verdict.detail, "it is too large");
    }
    EXPECT_TRUE(any_refused);
  }
}

// Reductions of other axes and shapes, and rows that have no room on the chip, are no plain ones.
TEST(Foreseen, WhatSchedulesRefuseIsRefused) {
  const auto text = [](const std::string& graph) {
    return to_text(planned(parse_graph(graph).value()).plan);
  };
  EXPECT_EQ(text(R"(graph g(%x: f32[64, 64]) {
    %a = softmax(%x) {axis = 1}
    %b = softmax(%a) {axis = 0}
    return %b as "y"
  })"),
            "0 row: softmax\n1 reduce: softmax\n");
  EXPECT_EQ(text(R"(graph g(%x: f32[64, 64], %z: f32[64, 32]) {
    %a = softmax(%x) {axis = 1}
    %m = reduce_max(%a) {axes = [1], keepdims = 1}
    %s = mul(%z, %m)
    %t = softmax(%s) {axis = 1}
    return %a as "a", %t as "t"
  })"),
            "0 row: softmax + reduce_max\n1 row: mul + softmax\n");
}

}  // namespace
}  // namespace opweld::testing
