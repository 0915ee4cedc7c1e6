// What every subcommand does first: load the model, compile it, find inputs.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "compile.h"
#include "graph/graph.h"
#include "load.h"
#include "report/why.h"
#include "support/expected.h"
#include "tensor_files.h"

namespace opweld::cli {

// Flags shared by the subcommands that compile.
struct ModelOptions {
  std::string model;
  std::vector<std::string> plugins;
  std::vector<std::string> dims;      // "seq=128"
  std::vector<std::string> in_place;  // "present_key=past_key"
  std::string fusion = "auto";
  int threads = 0;
  std::string target = "host";
  std::string numerics = "default";
  std::vector<std::string> without;  // schedules by name
  std::string dump_after;
  bool single_launch = false;
  bool attention_chains = false;
  bool chains_of_any_rows = false;
  bool linear_rules = false;
  bool json = false;
  bool tune = false;
  double tune_seconds = 60;
  bool no_tuned = false;
  bool no_cache = false;
  std::vector<std::string> require;  // patterns of fusions that must be there
};

// Flags that say where a run's inputs come from.
struct InputOptions {
  std::vector<std::string> inputs;  // "NAME=FILE", or one .npz
  unsigned seed = 1;
};

void add_model_options(CLI::App& command, ModelOptions& options);
void add_input_options(CLI::App& command, InputOptions& options);

// The model, with what is declared of it, once the plugins are loaded.
Expected<Graph> load_model(const ModelOptions& options);

Expected<std::map<std::string, std::int64_t>> parse_dims(const std::vector<std::string>& dims);
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
Status check_requirements(const PlannedModel& planned, const ModelOptions& options);

// Sizes for every symbol of the graph: as asked, else 1 for a batch and 128 for the rest, within
// the symbol's range. Naming a symbol that the graph lacks is a usage error that lists what there
// is.
Expected<Bindings> choose_sizes(const Graph& graph, const std::vector<std::string>& dims);

// Tensors for the graph's inputs, from files where given, else random: token ids that fit the table
// they look into, masks of ones, floats uniform in [-1, 1).
Expected<std::vector<Tensor>> find_inputs(const Graph& graph, const ModelOptions& model,
                                          const InputOptions& inputs);

RunOptions run_options(const ModelOptions& options);

NamedTensors named_outputs(const Graph& graph, std::vector<Tensor> outputs);

}  // namespace opweld::cli
