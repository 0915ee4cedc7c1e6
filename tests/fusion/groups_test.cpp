#include "fusion/groups.h"

#include <random>
#include <set>

#include "fusion/planning.h"
#include "fusion/random_model.h"

namespace opweld::testing {
namespace {

// Whether a third group lies on a way from the one to the other: walks all of them.
bool third_group_between(Groups& groups, const Group& from, const Group& to) {
  std::set<const Group*> seen;
  std::vector<const Group*> pending = {&from};
  while (!pending.empty()) {
    const Group* const group = pending.back();
    pending.pop_back();
    for (const Node* node : group->nodes) {
      for (int i = 0; i < node->num_results(); ++i) {
        for (const Use& use : node->result(i)->uses()) {
          const Group* const reader = groups.group_of(use.node);
          if (reader == &to && group != &from) return true;
          if (reader == &to || reader == &from || !seen.insert(reader).second) continue;
          pending.push_back(reader);
        }
      }
    }
  }
  return false;
}

TEST(Groups, AWayMayLeadBehindTheConsumerAndBack) {
  // %g and %b are one group, which began before %y: %a to %r to it to %y.
  const auto graph = parse_graph(R"(graph g(%x: f32[8, 8], %z: f32[8, 8]) {
    %a = exp(%x)
    %b = tanh(%z)
    %y = add(%a, %b)
    %r = neg(%a)
    %g = mul(%b, %r)
    return %y as "y", %g as "g"
  })");
  ASSERT_TRUE(graph) << graph.error().message;
  const std::vector<Node*> nodes = graph->nodes_in_order();
  Groups groups(*graph);
  const auto group = [&](int index) -> Group& {
    return *groups.group_of(nodes[static_cast<std::size_t>(index)]);
  };
  EXPECT_FALSE(groups.merge_makes_cycle(group(0), group(2)));
  groups.merge(group(1), group(4), KernelKind::Map);
  EXPECT_TRUE(groups.merge_makes_cycle(group(0), group(2)));
}

TEST(Groups, CyclesAreFoundWhateverGroupsThereAre) {
  int cycles = 0;
  int none = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = RandomModel(seed, 30).make();
    std::vector<Node*> nodes;
    for (Node* node : graph.nodes_in_order()) {
      if (node->op() != "constant") nodes.push_back(node);
    }
    Groups groups(graph);
    std::mt19937 random(seed);
    for (int step = 0; step < 60; ++step) {
      // Of any two groups, the one that is behind the other or beside it.
      Group* from = groups.group_of(nodes[random() % nodes.size()]);
      Group* to = groups.group_of(nodes[random() % nodes.size()]);
      if (from == to || groups.feeds(*to, *from) || third_group_between(groups, *to, *from)) {
        continue;
      }
      const bool expected = third_group_between(groups, *from, *to);
      ASSERT_EQ(groups.merge_makes_cycle(*from, *to), expected) << step;
      (expected ? cycles : none) += 1;
      if (!expected) groups.merge(*from, *to, KernelKind::Map);
      ASSERT_EQ(groups.in_order().size(), std::set<Group*>([&] {
                                            std::set<Group*> present;
                                            for (const Node* node : nodes)
                                              present.insert(groups.group_of(node));
                                            return present;
                                          }())
                                              .size())
          << "every group comes in an order, so that there is no cycle";
    }
  }
  EXPECT_GT(cycles, 100);
  EXPECT_GT(none, 100);
}

}  // namespace
}  // namespace opweld::testing
