// What a run is given: sizes, inputs, and how it goes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "arguments.h"
#include "both/tensor_files.h"
#include "graph/graph.h"
#include "graph/tensor.h"
#include "report/why.h"
#include "runtime/executable.h"
#include "support/expected.h"

namespace opweld::cli {

Expected<std::map<std::string, std::int64_t>> parse_dims(const std::vector<std::string>& dims);

// Sizes for every symbol of the graph: as asked, else those of `usual`, else 1 for a batch and 128
// for the rest, within the symbol's range. Naming a symbol that the graph lacks is a usage error
// that lists what there is.
Expected<Bindings> choose_sizes(const Graph& graph, const std::vector<std::string>& dims,
                                const Bindings& usual = {});

// Tensors for the graph's inputs, from files where given, else random: token ids that fit the table
// they look into, masks of ones, floats uniform in [-1, 1).
Expected<std::vector<Tensor>> find_inputs(const Graph& graph, const ModelOptions& model,
                                          const InputOptions& inputs);

RunOptions run_options(const ModelOptions& options);

NamedTensors named_outputs(const Graph& graph, std::vector<Tensor> outputs);

// Whether the plan has the fusions that are required.
Status check_requirements(const PlannedModel& planned, const ModelOptions& options);

}  // namespace opweld::cli
