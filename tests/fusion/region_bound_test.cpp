#include "fusion/region_bound.h"

#include <algorithm>

#include "fusion/group_cost.h"
#include "fusion/planning.h"
#include "fusion/random_model.h"

namespace opweld::testing {
namespace {

constexpr unsigned kGraphs = 150;

struct Edge {
  const Node* producer;
  const Node* consumer;
};

// From a node of the one kernel to a node of the other.
std::vector<Edge> edges_between(const Kernel& producer, const Kernel& consumer) {
  std::vector<Edge> edges;
  for (const Node* node : consumer.nodes) {
    for (const Value* operand : node->operands()) {
      if (operand == nullptr || std::ranges::count(producer.nodes, operand->producer()) == 0) {
        continue;
      }
      edges.push_back({operand->producer(), node});
    }
  }
  return edges;
}

class Bounds : public ::testing::Test {
 protected:
  Bounds() {
    options_.target = &target_;
    ask_anew();
  }

  // An oracle goes by nodes, which must live for as long as it is asked.
  void ask_anew() { options_.oracle = schedules_for(target_); }

  double moving_seconds(const Kernel& kernel) const {
    return group_cost({0, kernel.kind, kernel.nodes}, options_).moving_seconds;
  }

  Target target_ = host_target();
  PlanOptions options_;
};

TEST_F(Bounds, AreNeverAboveWhatKernelsMove) {
  constexpr double kRounding = 1e-9;
  int pairs = 0;
  int tight = 0;
  for (unsigned seed = 0; seed < kGraphs; ++seed) {
    SCOPED_TRACE(seed);
    ask_anew();
    // The bound is about kernels in which each node is once.
    const PlannedGraph planned(RandomModel(seed).make(), {.recompute = false});
    const auto& kernels = planned.plan().kernels;
    for (const Kernel& kernel : kernels) {
      const double moved = moving_seconds(kernel);
      EXPECT_LE(RegionBound(kernel.nodes, options_).together(), moved * (1 + kRounding))
          << kernel.label << " of " << to_string(kernel.nodes.back()->result()->type());
    }
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      for (std::size_t j = i + 1; j < kernels.size(); ++j) {
        const auto edges = edges_between(kernels[i], kernels[j]);
        if (edges.empty()) continue;
        std::vector<Node*> nodes = kernels[i].nodes;
        nodes.insert(nodes.end(), kernels[j].nodes.begin(), kernels[j].nodes.end());
        const double moved = moving_seconds(kernels[i]) + moving_seconds(kernels[j]);
        const RegionBound bound(nodes, options_);
        for (const Edge& edge : edges) {
          const double least = bound.apart(edge.producer, edge.consumer, HUGE_VAL);
          EXPECT_LE(least, moved * (1 + kRounding))
              << kernels[i].label << " | " << kernels[j].label;
          EXPECT_GE(least, bound.together());
          ++pairs;
          tight += least > moved * 0.98 ? 1 : 0;
        }
      }
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(pairs, 300);
  EXPECT_GT(tight * 5, pairs) << "a bound that says little";
}

TEST_F(Bounds, AreWhatTheCheapestCutMoves) {
  // Between %a and %d least crosses behind the sum of rows. What %x costs both sides is counted.
  const auto graph = parse_graph(R"(graph g(%x: f32[4096, 4096]) {
    %a = exp(%x)
    %b = neg(%a)
    %s = reduce_sum(%b) {axes = [1], keepdims = 1}
    %d = add(%s, %x)
    return %d as "y"
  })");
  ASSERT_TRUE(graph) << graph.error().message;
  std::vector<Node*> nodes = graph->nodes_in_order();
  const RegionBound bound(nodes, options_);
  const double cache = std::max(target_.bandwidth, target_.cache_bandwidth * target_.cores);
  const double matrix = 4.0 * 4096 * 4096 / cache;
  const double column = 4.0 * 4096 / cache;
  const double launch = target_.launch_seconds;
  EXPECT_DOUBLE_EQ(bound.together(), 2 * matrix + launch);
  const double apart = bound.apart(nodes.front(), nodes.back(), HUGE_VAL);
  EXPECT_DOUBLE_EQ(apart, 3 * matrix + 2 * column + 2 * launch);
  // Before the sum a matrix crosses as well, which is written and read.
  EXPECT_DOUBLE_EQ(bound.apart(nodes[0], nodes[1], HUGE_VAL), 5 * matrix + 2 * launch);
  EXPECT_GT(bound.apart(nodes[0], nodes[1], 4 * matrix), 4 * matrix);
}

}  // namespace
}  // namespace opweld::testing
