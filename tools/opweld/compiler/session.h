// What every subcommand that compiles does first: load the model, compile it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "arguments.h"
#include "both/inputs.h"
#include "compile.h"
#include "graph/graph.h"
#include "load.h"
#include "support/expected.h"

namespace opweld::cli {

// The model, with what is declared of it, once the plugins are loaded.
Expected<Graph> load_model(const ModelOptions& options);

Expected<FusionLevel> parse_level(const std::string& text);

// Compiles with progress on standard error when that is a terminal; after tuning, if asked for, on
// `inputs`, or on random ones where there are none. `base` holds what is not for the command line
// to decide.
Expected<Compiled> compile_model(const Graph& graph, const ModelOptions& options, FusionLevel level,
                                 CompileOptions base = {}, std::span<const Tensor> inputs = {});

// The same up to where code is made, for any target; without tuning.
Expected<Planned> plan_model(const Graph& graph, const ModelOptions& options, FusionLevel level,
                             CompileOptions base = {});

// Whether the plan for these sizes has the fusions that are required.
Status check_requirements(const Compiled& compiled, const ModelOptions& options,
                          const Bindings& sizes);

}  // namespace opweld::cli
