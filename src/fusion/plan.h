// The outcome of planning: which nodes share a kernel, and the verdict on every edge.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "opweld/compile_settings.h"

namespace opweld {

// The family of schedules that serves a kernel (tile/schedules/).
enum class KernelKind : std::uint8_t { Map, Row, Reduce, Contract, Chain, Attention, Move, Extern };
std::string_view to_string(KernelKind kind);

// Which rules decide what may share a kernel; see docs/fusion.md.
enum class RuleSet : std::uint8_t {
  Linear,  // the classic rules: no forks, nothing but linear data flow
  Full,
};

// Stable codes; the table with sentence and remedy is in fusion/reasons.h.
enum class ReasonCode : std::uint8_t {
  Fused,
  Fork,
  Stream,
  Format,
  Pressure,
  Cycle,
  Domain,
  Opaque,
  SideEffect,
  GraphOutput,
  UnservedType,
  Limit,
  Cost,
  Level,
  Without,
  Recompute,
};

// The one verdict on an edge (producer -> consumer, through `value`).
struct Verdict {
  const Value* value = nullptr;
  const Node* producer = nullptr;
  const Node* consumer = nullptr;
  ReasonCode code = ReasonCode::Fused;
  std::string detail;   // "3 readers", "needs 71 KiB of 48 KiB on chip"
  Dim bytes_saved = 0;  // boundary bytes that fusing saves (fused) or would save (refused)
  // Operations that it adds (fused) or would add (refused), since the consumer computes the
  // producer anew for every element that it reads.
  Dim flops_added = 0;
  int kernel = -1;  // the kernel that holds both, when fused
};

struct Kernel {
  int id = 0;
  std::string name;  // "FusedKernel_3", or "Kernel_3" for a single node
  KernelKind kind = KernelKind::Map;
  std::vector<Node*> nodes;  // in topological order; constants are not listed
  // Of those, the ones that other kernels compute as well, in the same order. Nobody writes what
  // they make.
  std::vector<Node*> recomputed;
  std::vector<Value*> inputs;     // read from memory, constants apart, each once
  std::vector<Value*> constants;  // read from memory, each once
  std::vector<Value*> outputs;    // written to memory, each once
  std::string scope;              // common layer of its nodes, may be empty
  // Operator names in order, as people read them: "MatMul + Add + Gelu".
  std::string label;
};

// A reshape that is in no kernel: its result is its operand's memory under another shape.
struct Alias {
  Value* result = nullptr;
  Value* source = nullptr;
};

// A value that is computed in each kernel that reads it instead of being written once
// (fusion/recompute.h).
struct Recomputation {
  const Value* value = nullptr;
  int kernels = 0;      // that compute it
  Dim bytes_saved = 0;  // of what these kernels and the one that wrote it read and write
  Dim flops_added = 0;  // operations in the kernels beside the first, with what it is made of
};

// What the sizes of a run must come to.
struct SizeCondition {
  Dim size;
  std::int64_t least = 0;
  std::string what;  // "rows of a task of FusedKernel_3"

  [[nodiscard]] bool holds(const Bindings& bindings) const;
};

// What the search for a better plan than the greedy one came to (fusion/search.h).
struct SearchAccount {
  // Of all kernels, by the kernel model with unknown sizes at nominal ones; of calls, a launch.
  // Statistics, which are judged at the sizes that a plan is for, come behind that.
  double greedy_seconds = 0;
  double seconds = 0;
  int regions = 0;      // that were taken apart
  int improved = 0;     // and put together otherwise
  int siblings = 0;     // kernels that went into one beside them (fusion/siblings.h),
  int statistics = 0;   // and into the matmul before them (fusion/statistics.h)
  int passed_over = 0;  // regions that were not, though some cut might have been better
  // How often schedules were asked, by the greedy merging and by the search.
  std::int64_t questions = 0;
};

// A plan as the others of its graph know it.
struct PlanSummary {
  std::int64_t kernels = 0;
  std::vector<SizeCondition> conditions;
};

struct FusionPlan {
  FusionLevel level = FusionLevel::Auto;
  SearchAccount search;
  // Sound for any sizes, but meant for those at which all of these hold; empty: for any.
  std::vector<SizeCondition> conditions;
  // Where a graph has several plans, all of them, in the order in which a run looks for the first
  // that is for its sizes; and which of them this is. Empty: it is the only one.
  std::vector<PlanSummary> versions;
  std::size_t version = 0;
  // The fewest rows of a task that a kernel asked for which was refused for having fewer, though
  // larger sizes give it as many; 0: none did.
  std::int64_t more_from_rows = 0;
  std::vector<Kernel> kernels;  // in execution order
  std::vector<Alias> aliases;   // in topological order
  std::vector<Verdict> verdicts;
  std::vector<Recomputation> recomputations;  // readers first

  // Boundary bytes of a kernel: each tensor that crosses its edge, once; constants are read. Of a
  // tensor that it reads in slices or looks up rows in, those; of a cache that it writes into in
  // place, what it writes.
  [[nodiscard]] static Dim bytes_read(const Kernel& kernel);
  [[nodiscard]] static Dim bytes_written(const Kernel& kernel);

  [[nodiscard]] bool is_for(const Bindings& bindings) const;
};

// Tells each of a graph's plans of all of them.
void number_versions(std::span<FusionPlan> plans);

// Fills inputs, constants, outputs, scope and label from the nodes and those recomputed.
void complete_kernel(Kernel& kernel);

// The nodes whose operators make up the kernel's label, in its order: one for each operator of the
// model, though it may take several nodes.
std::vector<const Node*> named_operators(const Kernel& kernel);

// What the operator is called in the user's model, else here.
std::string_view operator_name(const Node& node);

// How many operators of the model it is: what its source says, and none for a prologue of weights.
int operators_of(const Node& node);

// The kernel's nodes as a graph of their own: inputs and outputs in the kernel's order, constants
// as constant nodes that share their bytes.
Graph extract_group(const Kernel& kernel);

// Every node (constants apart) in one kernel or one alias, or in several kernels that all say that
// it is recomputed; every value there when it is read, no cycle among kernels. Else what is wrong.
std::string check_plan(const Graph& graph, const FusionPlan& plan);

// One line per kernel and alias, stable, for golden tests.
std::string to_text(const FusionPlan& plan);

}  // namespace opweld
