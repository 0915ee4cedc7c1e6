// Plans as text, to be kept for the next process that plans the same graph.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fusion/plan.h"
#include "fusion/planner.h"
#include "graph/graph.h"

namespace opweld {

// All that the plans of a graph depend on beside the build of Opweld: the graph, with weights of
// any numbers; the target; and how it is planned. `more` stands for what the oracle depends on.
std::string planning_key(const Graph& graph, const PlanOptions& options, std::string_view more);

// JSON. Nodes are told by their places in the graph, and values by the nodes that make them.
std::string plan_record(const Graph& graph, std::span<const FusionPlan> plans);

// The inverse, for an equal graph. Nothing where the text is no such record, or tells of plans that
// are not sound for this graph (check_plan).
std::optional<std::vector<FusionPlan>> parse_plan_record(const Graph& graph, std::string_view text);

}  // namespace opweld
