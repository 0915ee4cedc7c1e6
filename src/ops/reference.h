// The reference evaluator: runs a graph operator by operator with the definitions' own evaluate.
// Slow, plain and independent of all code generation; every kernel is judged against it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/op.h"
#include "support/expected.h"

namespace opweld {

struct ReferenceOptions {
  // Evaluate float arithmetic in f64 throughout (values are not rounded to their dtype between
  // nodes): the fp64 oracle. Otherwise every result is rounded to its dtype, as unfused code
  // stores.
  bool in_f64 = false;
  // With that: what follows from constants alone is rounded to its dtype all the same, node by
  // node, as a compiler that folds constants stores it.
  bool constants_as_stored = false;
  // Of an attention: so many keys are taken at a time, their weights exp(score - maximum so far)
  // rounded to bf16 before they meet V, as a kernel on a matrix unit does (docs/numerics.md); 0:
  // weights are not rounded.
  std::int64_t bf16_weight_keys = 0;
  // Called after every node, e.g. to compare intermediates; may be empty.
  std::function<void(const Node&, std::span<const Tensor>)> observer;
};

// Binds symbols from the inputs' sizes, checks the graph's size assumptions, evaluates. Inputs are
// in the order of graph.inputs(); results in the order of graph.outputs().
Expected<std::vector<Tensor>> evaluate(const Graph& graph, std::span<const Tensor> inputs,
                                       const ReferenceOptions& options = {});

// The same for a graph cut out of another, whose inputs need not tell all symbols: `bindings` are
// those of the whole.
Expected<std::vector<Tensor>> evaluate(const Graph& graph, std::span<const Tensor> inputs,
                                       const Bindings& bindings,
                                       const ReferenceOptions& options = {});

// The results of one node, whose operands are given in order; what stands for an absent one is not
// looked at. Serves operators defined by a body as well. In f64, float operands are f64.
Expected<std::vector<Tensor>> evaluate_node(const Node& node, std::span<const Tensor> operands,
                                            const Bindings& bindings,
                                            const ReferenceOptions& options = {});

// Symbol values from concrete input sizes; a size that contradicts its declared Dim is a usage
// error naming the input and axis.
Expected<Bindings> bind_symbols(const Graph& graph, std::span<const Tensor> inputs);

// Whether the sizes that operators had to assume equal are equal under these values; a usage error
// that says which operator needs it.
Status check_assumptions(const Graph& graph, const Bindings& bindings);

}  // namespace opweld
