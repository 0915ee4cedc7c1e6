// The account of a plan: what was fused, what was not and why, and what it saves.
//
// Bytes are boundary bytes: each tensor that crosses a kernel's edge, once, at the sizes of the
// given bindings.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "fusion/plan.h"
#include "report/model_names.h"
#include "runtime/executable.h"
#include "support/expected.h"

namespace opweld {

struct Traffic {
  std::int64_t kernels = 0;
  std::int64_t read_bytes = 0;
  std::int64_t written_bytes = 0;

  bool operator==(const Traffic&) const = default;
};

// Kernels of one layer of the model; a kernel counts for the layer that it begins in, so that those
// that reach over into the next one are counted once. `scope` is empty for what belongs to none.
struct LayerTraffic {
  std::string scope;
  Traffic traffic;
};

Expected<Traffic> total_traffic(const FusionPlan& plan, const Bindings& bindings);
// In order of first appearance; repeated layers have equal numbers.
Expected<std::vector<LayerTraffic>> layer_traffic(const FusionPlan& plan, const Bindings& bindings);
// The layer that a kernel counts for.
std::string_view layer_of(const Kernel& kernel);

// "for sizes that give 81 rows of a task of FusedKernel_2 or more: 128 here", one line for each
// condition of the plan.
std::vector<std::string> conditions_log(const FusionPlan& plan, const Bindings& bindings);

// Where sizes decide which of several plans is run, which of them this is: "plan 2 of 3, for 24
// rows of a task of FusedKernel_1 or more, 64 here", "plan 3 of 3, for any other sizes". Empty
// where there is one.
std::string version_text(const FusionPlan& plan, const Bindings& bindings);

// What the others have: "3 plans: 14 kernels from 80 rows of a task of FusedKernel_3 on, 20 (this
// one) from 24 rows of a task of FusedKernel_1 on, 44 for any other sizes". Empty where there is
// one.
std::string versions_log(const FusionPlan& plan);

// What the search for a better plan than the greedy one came to, by the kernel model with unknown
// sizes at nominal ones; in one line.
std::string search_log(const FusionPlan& plan);

// One line for each fused kernel, "AutoFusion: MatMul + Add -> FusedKernel_3 [layers.0] saves 1.2
// MB, 1 kernel", one for each operator that several kernels compute, "AutoFusion: Cast_3 is
// recomputed in 2 kernels, saves 3.1 MB, adds 524288 operations", and with `every_edge` one for
// each edge that was kept, with its reason and a hint.
Expected<std::vector<std::string>> fusion_log(const FusionPlan& plan, const Bindings& bindings,
                                              bool every_edge);

// The lines of the latter, which need no sizes: "AutoFusion: keep Exp_12 | MatMul_13: fork (3
// readers) [F-FORK] hint: ...".
std::vector<std::string> kept_edges_log(const FusionPlan& plan);

// One line for every edge of the graph: the above for those that were kept, and "AutoFusion: fuse
// Exp_12 | Mul_13 -> FusedKernel_3 saves 1.2 MB" for the others.
Expected<std::vector<std::string>> edge_log(const FusionPlan& plan, const Bindings& bindings);

// All operators of the user's model that the kernel does the work of, by their names there.
std::vector<std::string> sources_of(const Kernel& kernel, const ModelNames& names);

// Where no kernel fuses anything, "AutoFusion: no kernel fuses operators; kept apart: 3 F-LEVEL".
std::string nothing_fused_line(const FusionPlan& plan);

// {"level", "sizes", "conditions": [...], "search": {...}, "kernels": [...], "edges": [...],
// "recomputed": [...], "layers": [...], "equal_layers": [...], "totals": {...}, "log": [...],
// "tuning": [...]}. Conditions are what the plan asks of sizes, as "what", "size", "least" and
// "value": what `size` comes to here. In the totals stand launches and barriers, and in a single
// launch with each kernel its stretch: how many of the barriers are before it. `tuning` are lines
// about kernels with block sizes that were measured.
//
// Of what is recomputed stand "node", the number of "kernels" that compute it, "bytes_saved" and
// "flops_added" beside computing it once. A kernel's "nodes" include it in each.
//
// Edges are those of the planned graph, each operand of an operator that another one computed, and
// each has one verdict: "from" and "to", which are names of the user's model; "from_sources" and
// "to_sources", all operators of it that the two do the work of; "verdict", "fused" or "kept";
// "code" and "rule", empty where it was fused; "detail" and "remedy"; "bytes_saved" and
// "flops_added", by fusing or if it were fused; "kernel", the id of the one that holds both, or
// null. Without `names` an operator that was found in the model's spelling goes by the name of the
// last of those that it was made of.
Expected<std::string> explain_json(const FusionPlan& plan, const Bindings& bindings,
                                   const LaunchAccount& launches,
                                   std::span<const std::string> tuning = {},
                                   const ModelNames* names = nullptr);

std::string_view to_string(FusionLevel level);  // "none", "ops", "auto"

// "33.6 MB", "512 B"
std::string human_bytes(double bytes);

}  // namespace opweld
