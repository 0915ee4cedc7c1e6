// Planning: which neighbours share a kernel.
//
// First greedy, forwards: nodes are visited in topological order, and each tries to join the groups
// of its operands' producers, one after the other (merging.h). Then a search around each edge on
// which that was refused (search.h). A group is decided once, so all readers of a value agree on
// where it is. What a schedule can hold is not known here: the caller hands in an oracle (tile/
// supplies it), so that planner and schedules cannot disagree.
#pragma once

#include <functional>

#include "fusion/kernel_estimate.h"
#include "fusion/plan.h"
#include "support/expected.h"
#include "target/target.h"

namespace opweld {

struct SearchMemory;

struct PlanOptions {
  FusionLevel level = FusionLevel::Auto;
  RuleSet rules = RuleSet::Full;
  const Target* target = nullptr;
  std::vector<KernelKind> without;  // nothing is welded into kernels of these
  KernelOracle oracle;              // absent: every group of a mergeable kind is taken to be served
  int max_nodes = 64;               // of one kernel; a larger group is refused with `limit`
  int max_tensors = 32;             // read and written by one kernel
  std::int64_t nominal_size = 128;  // stands for an unknown size in the cost model
  double model_weight_bytes = 0;    // of all matmuls of the graph; plan_fusion counts them
  // How many rows tasks have at the sizes that the plan is for, where only a run knows that: so
  // many, as far as there can be. What that asks of the sizes becomes the plan's conditions. 0: as
  // few as there can be; that plan is for any sizes.
  double rows_granted = 0;
  // Told of each chain that asks for so many rows, which larger sizes give it and smaller ones do
  // not, whether they are granted; where not, the chain is refused.
  std::function<void(std::int64_t rows, bool granted)> on_rows_asked;
  // What was found out in planning the same graph for other sizes; null: all of it is found out
  // anew.
  SearchMemory* memory = nullptr;
  // Look for a better plan than the greedy one.
  bool search = true;
  // How many questions that may ask the oracle: so many, and so many for each node. Questions are
  // counted, not seconds, so that the same graph always has the same plan.
  std::int64_t search_questions = 1000;
  std::int64_t search_questions_of_node = 1;
  // Compute cheap operators in each kernel that reads them where that is less to move.
  bool recompute = true;
  // Let an attention go on into its projection in one kernel (legality/attention_chain.cpp).
  bool attention_chains = false;
  // Make chains however few rows their tasks have (legality/chain_cost.cpp).
  bool chains_of_any_rows = false;
};

Expected<FusionPlan> plan_fusion(const Graph& graph, const PlanOptions& options);

}  // namespace opweld
