// What a caller's settings ask of the compiler.
#pragma once

#include <vector>

#include "compile.h"
#include "graph/graph.h"
#include "opweld/compile_settings.h"
#include "opweld/tensor.h"
#include "support/expected.h"

namespace opweld {

// A usage error that names the first setting that cannot be.
Status check_settings(const CompileSettings& settings);

// The model with the caches that settings declare to be in place.
Expected<Graph> declared_graph(const Graph& model, const CompileSettings& settings);

// The options but for measuring block sizes, which CompileSettings::tune_seconds asks for.
CompileOptions options_of(const CompileSettings& settings);

// A value for every free size of the graph: as asked, else the usual one. A name that the graph
// lacks is a usage error that begins with `what`.
Expected<Bindings> sizes_to_run_at(const Graph& graph, SymbolValues asked, std::string_view what);

// The caller's inputs as tensors, in order; a usage error names the input.
Expected<std::vector<Tensor>> input_tensors(const Graph& graph,
                                            const std::vector<TensorView>& views);

}  // namespace opweld
