// Outputs that take over the memory of an input, as a KV cache does that a step appends to.
//
// A declaration (Graph::Output::in_place_of) is a promise to whoever runs the model: given the same
// memory for both, the run writes what is new and moves nothing else. Given different memory it
// copies the input first, so results do not depend on it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

// Declares that the output lies in place of the input, both by name. A usage error that lists what
// there is where a name is unknown, says so where the two were turned round, and where the output
// was declared in place of another input before.
Status declare_in_place(Graph& graph, std::string_view output, std::string_view input);

// Holds every declaration against the graph and marks the nodes that make good on it, so that the
// planner may put them into kernels. The output must be what a tensor_scatter makes of the input,
// of the same type, and nobody else may read what the input held; else an error that names the
// node, and the way out. Undeclared scatters lose the mark, whoever set it.
Status mark_in_place(Graph& graph);

// What a run copies although it need not: a line for every output that is an input's elements and
// some new ones, with the way to do without the copy.
std::vector<std::string> copied_caches(const Graph& graph);

}  // namespace opweld
