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
// given a maker that infers them. An absent operand is `_`. Several results:
// `%v, %i = top_k(%x) {...}`. A comment runs from # to the end of the line.
//
// Values are called by their name in the user's model, in quotes where it is no identifier
// (`%"/layers.0/Add_output_0"`); those without a name are numbered (`%0`). Further parts of a
// source follow its name: `@"/layer.0/Add" op "Add" scope "layer.0" operators 2 stream "copy"`.
// Symbols that occur in the inputs are declared by that; `where` adds their ranges, and symbols
// that occur elsewhere only. Sizes that had to be assumed equal stand before the return: `assume s
// == t, "why"`. An output that takes over the memory of an input names it: `return %new as
// "present" in_place %past`.
//
// Tensors print in full up to 64 elements, beyond that as `splat` when all elements are bit-equal,
// as `f32[16, 16] bytes "hex"` (little-endian) when PrintOptions::full_constants is set and else as
// `f32[16, 16] hash "..."`, which does not parse. `f32[16, 16] random 7` (seeded uniform in [-1,
// 1), integers in [0, 10)) is accepted for tests. A NaN other than the default one shows its bits:
// `nan:0xffc00000`. An empty list of reals is `reals []`, since `[]` is one of integers.
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
// "{axis = -1, epsilon = 1e-05}"; large tensors by their hash.
std::string to_text(const Attributes& attributes);

// Makes the node of a statement: infers its result types, or says why it cannot. build_node() of
// ops/builder.h is the one that knows all operators.
using NodeMaker =
    std::function<Expected<Node*>(Graph& graph, std::string_view op, std::vector<Value*> operands,
                                  Attributes attributes, const Source& source)>;

// Errors carry "line L, column C". Types that the text states must be those the maker arrives at.
// Without a maker every node must state its result types, and any operator goes.
Expected<Graph> parse_graph_text(std::string_view text, const NodeMaker& maker = {});

// A value that statements may read as `%name`; a null one reads as an absent operand.
struct NamedValue {
  std::string name;
  Value* value;
};

// What stands between the braces of a graph, for a part of one that exists: statements, whose nodes
// `maker` puts into `graph`, and `return %a, %b`. Sizes may speak of the symbols that the shapes of
// `values` speak of. The names of the text are its own: no value gets one. Gives what is returned.
Expected<std::vector<Value*>> parse_statements(std::string_view text, Graph& graph,
                                               const std::vector<NamedValue>& values,
                                               const NodeMaker& maker);

}  // namespace opweld
