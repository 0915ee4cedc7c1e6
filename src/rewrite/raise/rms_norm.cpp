#include "rewrite/raise/rms_norm.h"

#include "rewrite/dce.h"
#include "rewrite/match.h"
#include "rewrite/raise/root_mean_square.h"

namespace opweld {

Status raise_rms_norm(Graph& graph) {
  for (Node* node : graph.nodes_in_order()) {
    const auto division = match_rms_division(*node);
    if (!division) continue;
    Node* root = node;
    Value* scale = division->scale;
    if (scale == nullptr) {
      Node* const scaled =
          parameter_step(root->result(), "mul", division->x, division->axis, scale);
      if (scaled != nullptr) root = scaled;
    }
    OPWELD_CHECK(raise_norm(graph, *root, "rms_norm", "RMSNormalization",
                            {division->x, scale, nullptr}, division->axis, division->epsilon));
  }
  return eliminate_dead_code(graph);
}

}  // namespace opweld
