// The two graphs of the page: the model as it was imported, and the graph that was planned.
//
// Includes nlohmann/json, so it is for this folder's page alone.
#pragma once

#include <nlohmann/json.hpp>

#include "fusion/plan.h"
#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

// {"nodes": [{"name", "op", "layer", "kernel", "fate", "type"}], "edges": [{"from", "to", "type",
// "bytes", "verdict", "code", "detail", "kernel"}]}. Nodes are named in edges by their index;
// inputs and outputs of the model are nodes as well, constants are not. A verdict is "fused",
// "kept", "folded" for what is known when the model is compiled, and "edge" for what enters or
// leaves the model. Kernels are indices into those of the plan, absent where there is none.
//
// Of the imported graph an edge has the verdict of the plan where its two nodes are still there,
// and else that on the kernels which they became part of.
Expected<nlohmann::ordered_json> imported_graph_json(const Graph& imported, const FusionPlan& plan,
                                                     const Bindings& sizes);

Expected<nlohmann::ordered_json> planned_graph_json(const Graph& planned, const FusionPlan& plan,
                                                    const Bindings& sizes);

}  // namespace opweld
