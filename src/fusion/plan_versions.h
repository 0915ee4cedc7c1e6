// Plans for a graph whose sizes only a run knows.
//
// Whether a chain pays depends on how many rows a task has (legality/chain_cost.cpp). So a graph
// with such chains has several plans, each for sizes that give so many rows or more, and a run
// takes the first that is for its sizes. The rule:
//
// - First a plan for the fewest rows that there may be. While planning, chains are refused that
//   would pay from some number of rows on, the lowest of which is where the next plan begins:
//   between the two nothing would be decided otherwise. So on until nothing is refused for rows.
// - Chains that ask for little more than where a plan begins are made in it, too: by what it spares
//   a chain does not differ so finely, and else lengths a few rows apart would each have a plan of
//   their own.
// - A plan is kept if it has fewer kernels than all that are for fewer rows, or as many and moves
//   less.
// - Beyond kMostVersions, the one is left out that costs least: by the kernels that the plan below
//   it has more, times the ratio of the rows that it serves from and up to.
//
// So, as far as rows decide, a model whose sizes are free runs in no more kernels than one whose
// sizes are known. All plans ask one oracle, which remembers, so that a further one costs little
// more than looking its groups up.
#pragma once

#include "fusion/planner.h"

namespace opweld {

inline constexpr std::size_t kMostVersions = 6;

// Those for more rows first; the last is for any sizes. One alone where sizes decide nothing.
Expected<std::vector<FusionPlan>> plan_versions(const Graph& graph, PlanOptions options);

}  // namespace opweld
