// What became of the operators of the user's model: which kernel computes them now.
//
// Passes rewrite the graph before it is planned, so the nodes of the plan are not all nodes of the
// model. A node that is still there is known by its id, one that was built on behalf of the model's
// by its source name ("a + b" where several became one). What has neither was taken in by a
// rewrite: it belongs to the kernel of its readers, where these agree on one.
#pragma once

#include <map>

#include "fusion/plan.h"
#include "graph/graph.h"

namespace opweld {

enum class OperatorFate : std::uint8_t {
  Kept,      // by its own name in a kernel
  Absorbed,  // by way of a rewrite part of what a kernel computes
  Alias,     // a reshape in no kernel: it moves nothing
  Folded,    // sizes and constants, computed when the model was compiled
  Dropped,   // simplified away
};
std::string_view to_string(OperatorFate fate);  // "kept", "absorbed", ...

struct Origin {
  OperatorFate fate = OperatorFate::Dropped;
  int kernel = -1;  // index into the kernels of the plan
};

// Of every node of the imported graph but constants. `imported` is the graph as it was before the
// one that `plan` speaks of was cloned from it and rewritten.
std::map<const Node*, Origin> trace_origins(const Graph& imported, const FusionPlan& plan);

}  // namespace opweld
