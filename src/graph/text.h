// The textual form of a graph: stable, printed and parsed, used by tests, dumps and people.
//
//   graph add_norm(%x: f32[b, s, 384], %r: f32[b, s, 384]) where s in [1, 512] divisible 8 {
//     %g = constant {value = f32[384] splat 1.0}
//     %h = add(%x, %r) @"/layer.0/Add"
//     %y = rms_norm(%h, %g) {axis = -1, epsilon = 1e-05}
//     return %y as "hidden", %h as "residual"
//   }
//
// Result types are printed (`%h: f32[b, s, 384] = add(...)`) and may be left out when the parser is
// given a rule that infers them. An absent operand is `_`. Several results:
// `%v, %i = top_k(%x) {...}`. A comment runs from # to the end of the line. Tensors print in full
// up to 64 elements, `splat` when all elements are bit-equal, else as `f32[4, 4] bytes "hex"` when
// PrintOptions::full_constants is set and as `f32[4, 4] hash "..."` (which does not parse)
// otherwise; `f32[4, 4] random 7` (seeded uniform in [-1, 1), integers in [0, 10)) is accepted for
// tests.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

struct PrintOptions {
  bool types = true;
  bool sources = true;
  bool full_constants = false;
};

std::string to_text(const Graph& graph, const PrintOptions& options = {});

// Called for each parsed node to infer its result types, or to check those given; ops/builder.h
// supplies the rule that knows all operators.
using ResultTypeRule = std::function<Expected<std::vector<TensorType>>(
    Graph& graph, const std::string& op, std::span<Value* const> operands,
    const Attributes& attributes)>;

// Errors carry "line L, column C". Without a rule every node must state its result types.
Expected<Graph> parse_graph_text(std::string_view text, const ResultTypeRule& rule);

}  // namespace opweld
