#include "rewrite/dce.h"

#include <algorithm>

namespace opweld {

Status eliminate_dead_code(Graph& graph) {
  std::vector<Node*> nodes = graph.nodes_in_order();
  // Readers stand behind what they read, so one sweep from the end finds all.
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    bool dead = true;
    for (int i = 0; i < (*node)->num_results(); ++i) {
      const Value* result = (*node)->result(i);
      dead = dead && result->uses().empty() && !result->is_graph_output();
    }
    if (dead) graph.erase(*node);
  }
  return {};
}

}  // namespace opweld
