// The account of a plan: what was fused, what was not and why, and what it saves.
//
// Bytes are boundary bytes: each tensor that crosses a kernel's edge, once, at the sizes of the
// given bindings.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "fusion/plan.h"
#include "runtime/executable.h"
#include "support/expected.h"

namespace opweld {

struct Traffic {
  std::int64_t kernels = 0;
  std::int64_t read_bytes = 0;
  std::int64_t written_bytes = 0;
};

// Kernels of one layer of the model; a kernel counts for the layer that its operators share.
// `scope` is empty for what belongs to none.
struct LayerTraffic {
  std::string scope;
  Traffic traffic;
};

Expected<Traffic> total_traffic(const FusionPlan& plan, const Bindings& bindings);
// In order of first appearance; repeated layers have equal numbers.
Expected<std::vector<LayerTraffic>> layer_traffic(const FusionPlan& plan, const Bindings& bindings);

// "for sizes that give 96 rows of a task of FusedKernel_2 or more: 128 here", one line for each
// condition of the plan.
std::vector<std::string> conditions_log(const FusionPlan& plan, const Bindings& bindings);

// One line for each fused kernel, "AutoFusion: MatMul + Add -> FusedKernel_3 [layers.0] saves 1.2
// MB, 1 kernel", and with `every_edge` one for each edge that was kept, with its reason and a hint.
Expected<std::vector<std::string>> fusion_log(const FusionPlan& plan, const Bindings& bindings,
                                              bool every_edge);

// The lines of the latter, which need no sizes.
std::vector<std::string> kept_edges_log(const FusionPlan& plan);

// {"level", "sizes", "conditions": [...], "kernels": [...], "edges": [...], "layers": [...],
// "totals": {...}, "log": [...], "tuning": [...]}. Conditions are what the plan asks of sizes, as
// "what", "size", "least" and "value": what `size` comes to here. In the totals stand launches and
// barriers, and in a single launch with each kernel its stretch: how many of the barriers are
// before it. `tuning` are lines about kernels with block sizes that were measured.
Expected<std::string> explain_json(const FusionPlan& plan, const Bindings& bindings,
                                   const LaunchAccount& launches,
                                   std::span<const std::string> tuning = {});

std::string_view to_string(FusionLevel level);  // "none", "ops", "auto"

// "33.6 MB", "512 B"
std::string human_bytes(double bytes);

}  // namespace opweld
