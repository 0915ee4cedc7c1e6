// What must hold of the plan of every graph.
#include <algorithm>
#include <map>
#include <set>

#include "fusion/planning.h"
#include "fusion/random_model.h"
#include "graph/text.h"

namespace opweld::testing {
namespace {

constexpr unsigned kGraphs = 400;
const Bindings kSizes = {{"m", 48}, {"n", 160}};

std::int64_t boundary_bytes(const FusionPlan& plan) {
  Dim bytes = 0;
  for (const Kernel& kernel : plan.kernels) {
    bytes += FusionPlan::bytes_read(kernel) + FusionPlan::bytes_written(kernel);
  }
  return bytes.evaluate(kSizes).value();
}

using KernelSets = std::map<const Node*, std::set<int>>;

KernelSets kernels_of(const FusionPlan& plan) {
  KernelSets kernels;
  for (const Kernel& kernel : plan.kernels) {
    for (const Node* node : kernel.nodes) kernels[node].insert(kernel.id);
  }
  return kernels;
}

// Independent of check_plan: counts, and walks the kernels' edges. Each node is in one kernel, or
// in several that all compute it for themselves and write nothing of it.
void expect_partition(const PlannedGraph& planned) {
  std::map<const Node*, int> times;
  for (const Kernel& kernel : planned.plan().kernels) {
    for (const Node* node : kernel.nodes) ++times[node];
    for (const Node* node : kernel.recomputed) {
      ASSERT_EQ(std::ranges::count(kernel.nodes, node), 1);
      ASSERT_EQ(std::ranges::count(kernel.outputs, node->result()), 0);
    }
  }
  KernelSets kernels = kernels_of(planned.plan());
  for (const Alias& alias : planned.plan().aliases) ++times[alias.result->producer()];
  for (const auto& node : planned.graph().nodes()) {
    const std::set<int>& holders = kernels[node.get()];
    const int copies =
        static_cast<int>(std::ranges::count_if(planned.plan().kernels, [&](const Kernel& kernel) {
          return std::ranges::count(kernel.recomputed, node.get()) > 0;
        }));
    ASSERT_EQ(copies, holders.size() > 1 ? static_cast<int>(holders.size()) : 0);
    const int expected = node->op() == "constant" ? 0 : std::max(1, copies);
    ASSERT_EQ(times[node.get()], expected) << node->display_name();
    for (const Value* operand : node->operands()) {
      // Aliases stand in no kernel: what they rename decides.
      const Node* producer = operand->producer();
      while (producer != nullptr && kernels[producer].empty() && producer->op() == "reshape") {
        producer = producer->operand(0)->producer();
      }
      if (producer == nullptr || producer->op() == "constant") continue;
      for (const int reader : holders) {
        const std::set<int>& makers = kernels.at(producer);
        if (makers.size() > 1) {
          ASSERT_TRUE(makers.contains(reader)) << "nobody writes what is recomputed";
        } else {
          ASSERT_LE(*makers.begin(), reader) << "kernels run in order";
        }
      }
    }
  }
}

// Every edge once, and the verdict says what the plan did.
void expect_true_verdicts(const PlannedGraph& planned) {
  const KernelSets kernels = kernels_of(planned.plan());
  std::map<std::pair<const Value*, const Node*>, std::ptrdiff_t> seen;
  for (const Verdict& verdict : planned.plan().verdicts) {
    ++seen[{verdict.value, verdict.consumer}];
    ASSERT_EQ(verdict.producer, verdict.value->producer());
    const auto from = kernels.find(verdict.producer);
    const auto to = kernels.find(verdict.consumer);
    const bool both = from != kernels.end() && to != kernels.end();
    if (both && std::ranges::includes(from->second, to->second)) {
      ASSERT_EQ(verdict.code, ReasonCode::Fused);
      ASSERT_TRUE(to->second.contains(verdict.kernel));
    } else if (both) {
      ASSERT_NE(verdict.code, ReasonCode::Fused);
      ASSERT_EQ(verdict.kernel, -1);
    }
  }
  for (const auto& [edge, count] : seen) {
    const auto reads =
        std::count(edge.second->operands().begin(), edge.second->operands().end(), edge.first);
    ASSERT_EQ(count, reads) << "one verdict for each operand";
  }
}

TEST(RandomPlans, AreSoundAndNeverWorseThanNoFusion) {
  std::size_t kernels_unfused = 0;
  std::size_t kernels_fused = 0;
  std::ptrdiff_t chains = 0;
  int improved = 0;
  std::size_t recomputed = 0;
  for (unsigned seed = 0; seed < kGraphs; ++seed) {
    PlanSettings settings;
    settings.attention_chains = seed % 2 == 0;
    settings.level = FusionLevel::None;
    const PlannedGraph none(RandomModel(seed).make(), settings);
    SCOPED_TRACE(fmt::format("seed {}:\n{}", seed, to_text(none.graph())));
    settings.level = FusionLevel::Auto;
    for (const RuleSet rules : kRuleSets) {
      settings.rules = rules;
      const PlannedGraph fused(RandomModel(seed).make(), settings);
      SCOPED_TRACE(fused.text());
      expect_partition(fused);
      expect_true_verdicts(fused);
      EXPECT_LE(fused.plan().kernels.size(), none.plan().kernels.size());
      EXPECT_LE(boundary_bytes(fused.plan()), boundary_bytes(none.plan()));
      const SearchAccount& search = fused.plan().search;
      constexpr double kRounding = 1e-9;  // sums in another order
      EXPECT_LE(search.seconds, search.greedy_seconds * (1 + kRounding))
          << search.regions << " regions, " << search.improved << " improved, " << search.siblings
          << " siblings, worse by " << search.seconds - search.greedy_seconds;
      improved += search.improved;
      recomputed += fused.plan().recomputations.size();
      kernels_fused += rules == RuleSet::Full ? fused.plan().kernels.size() : 0;
      chains += std::ranges::count(fused.plan().kernels, KernelKind::Chain, &Kernel::kind);
    }
    kernels_unfused += none.plan().kernels.size();
    if (HasFailure()) return;
  }
  // The graphs are worth the name: a good part of what is there is fused.
  EXPECT_GT(kernels_unfused, 6 * kGraphs);
  EXPECT_GT(chains, kGraphs / 20) << "too few for this to say anything of chains";
  EXPECT_GT(recomputed, 0U);
  EXPECT_GT(improved, 0) << "no graph on which greedy loses";
  EXPECT_LT(kernels_fused * 4, kernels_unfused * 3);
}

TEST(RandomPlans, AreTheSameEachTime) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    EXPECT_EQ(PlannedGraph(RandomModel(seed).make()).text(),
              PlannedGraph(RandomModel(seed).make()).text());
  }
}

}  // namespace
}  // namespace opweld::testing
