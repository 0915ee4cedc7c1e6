#include "session.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <set>

#include "compile_cache.h"
#include "ops/reference.h"
#include "plugins.h"
#include "report/require.h"
#include "report/usual_sizes.h"
#include "rewrite/in_place.h"
#include "support/cache_folder.h"
#include "target/planned.h"
#include "tune.h"
#include "tune/example_inputs.h"

namespace opweld::cli {

void add_model_options(CLI::App& command, ModelOptions& options) {
  command
      .add_option("model", options.model,
                  "ONNX file, or a graph in its textual form (.graph); for run, bench and "
                  "explain also what compile wrote (.opw)")
      ->required();
  add_plugin_option(command, options.plugins);
  command.add_option("--dim", options.dims,
                     "Size of a free dimension, as NAME=SIZE; may be repeated. Others: 1 for a "
                     "batch, else 128");
  command.add_option("--in-place", options.in_place,
                     "OUTPUT=INPUT: the output takes over the memory of the input, as a KV cache "
                     "does; repeatable. It must be what a TensorScatter writes into that input");
  command
      .add_option("--fusion", options.fusion,
                  "none: a kernel for each operator; ops: matmuls, attentions and norms, each "
                  "with what stands before and behind it, as an operator library has them; auto: "
                  "and whatever neighbours are worth a kernel together")
      ->check(CLI::IsMember({"none", "ops", "auto"}))
      ->capture_default_str();
  command.add_option("--threads", options.threads, "Threads to run on; 0 for one a core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command
      .add_option("--target", options.target,
                  "Hardware to compile for: host, host-amx, host-avx512, host-avx2, host-generic. "
                  "For hardware that is not here, " +
                      planned_names() + ", explain plans and counts")
      ->capture_default_str();
  command
      .add_option("--numerics", options.numerics,
                  "strict: intermediates are rounded as if stored, and fused results are "
                  "bit-identical to unfused ones")
      ->check(CLI::IsMember({"default", "strict"}))
      ->capture_default_str();
  command
      .add_option("--without", options.without,
                  "Schedules that nothing is welded into, separated by commas, such as chain: to "
                  "see what they gain")
      ->delimiter(',')
      ->check(CLI::IsMember({"map", "row", "reduce", "contract", "chain", "attention"}));
  command.add_flag("--single-launch", options.single_launch,
                   "Hand all kernels to the threads at once; they wait for each other only where a "
                   "kernel reads what another wrote. For small batches; results stay the same");
  command
      .add_option_function<std::string>(
          "--rules",
          [&options](const std::string& name) { options.linear_rules = name == "linear"; },
          "Which rules decide what may share a kernel: full, or linear for the classic ones alone, "
          "which fuse a value only with its one reader")
      ->check(CLI::IsMember({"full", "linear"}))
      ->default_str("full");
  command.add_flag("--attention-chains", options.attention_chains,
                   "Weld attention to the projection behind it where queries are many enough: a "
                   "kernel less and fewer bytes, but less to share out among threads");
  command.add_flag("--chains-of-any-rows", options.chains_of_any_rows,
                   "Weld matmuls one behind the other also where each thread has too few rows for "
                   "that to pay: to see what it would cost");
  command.add_option("--dump-after", options.dump_after,
                     "Print the result of a pass to standard error: graph, plan, tile programs or "
                     "assembly");
  command.add_flag("--tune", options.tune,
                   "First measure block sizes for the kernels that have a choice, at the sizes of "
                   "this call, and keep what is faster for all later ones; progress on standard "
                   "error");
  command
      .add_option("--tune-seconds", options.tune_seconds,
                  "With --tune: measure for so long at most; repeat to go on")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command.add_flag("--no-tuned", options.no_tuned,
                   "Leave what was measured before aside: block sizes follow from the hardware's "
                   "description alone");
  command.add_flag("--no-cache", options.no_cache,
                   "Plan and generate code anew, whatever earlier runs have left of both in the "
                   "cache folder, and leave nothing there");
  command
      .add_option(
          "--require", options.require,
          "Fail, and name the rule in the way, unless a kernel fuses this: operators in "
          "their order, as the log writes them ('MatMul + Add + Gelu'), or nodes by their "
          "names. '6 x MatMul + Gelu' wants six such kernels, 'MatMul + Gelu [layers.0]' one "
          "of that layer. Repeatable")
      ->allow_extra_args(false);
  command.add_flag("--json", options.json, "Print JSON for scripts");
}

void add_input_options(CLI::App& command, InputOptions& options) {
  command.add_option("--input", options.inputs,
                     "NAME=FILE (.npy or .pb), or one .npz with all; repeatable. Inputs not given "
                     "are random");
  command.add_option("--seed", options.seed, "Seed of random inputs")->capture_default_str();
}

namespace {

// OUTPUT=INPUT; names may have an '=' themselves.
Status declare_in_place(Graph& graph, const std::string& pair) {
  std::vector<std::size_t> splits;  // behind a name and before one
  for (std::size_t at = pair.find('=', 1); at != std::string::npos; at = pair.find('=', at + 1)) {
    if (at + 1 < pair.size()) splits.push_back(at);
  }
  if (splits.empty()) {
    return usage_error("--in-place '{}': write OUTPUT=INPUT, such as present_key=past_key", pair);
  }
  const auto names_both = [&](std::size_t at) {
    const auto is_output = [&](const Graph::Output& output) {
      return output.name == pair.substr(0, at);
    };
    const auto is_input = [&](const Value* input) { return input->name() == pair.substr(at + 1); };
    return std::ranges::any_of(graph.outputs(), is_output) &&
           std::ranges::any_of(graph.inputs(), is_input);
  };
  const auto known = std::ranges::find_if(splits, names_both);
  const std::size_t at = known != splits.end() ? *known : splits.front();
  const Status declared = opweld::declare_in_place(graph, pair.substr(0, at), pair.substr(at + 1));
  if (declared) return {};
  return tl::unexpected(declared.error().with_context(fmt::format("--in-place '{}'", pair)));
}

}  // namespace

Expected<Graph> load_model(const ModelOptions& options) {
  OPWELD_CHECK(load_plugins(options.plugins));
  OPWELD_TRY(Graph graph, load_graph(options.model));
  for (const std::string& pair : options.in_place) OPWELD_CHECK(declare_in_place(graph, pair));
  return graph;
}

Expected<std::map<std::string, std::int64_t>> parse_dims(const std::vector<std::string>& dims) {
  std::map<std::string, std::int64_t> sizes;
  for (const std::string& dim : dims) {
    const std::size_t equals = dim.rfind('=');
    std::int64_t size = -1;  // stays so where there is no number, or one that is too large
    const char* const end = dim.data() + dim.size();
    if (equals == std::string::npos || equals == 0 ||
        std::from_chars(dim.data() + equals + 1, end, size).ptr != end || size < 0) {
      return usage_error("--dim '{}': write NAME=SIZE, such as sequence=128", dim);
    }
    sizes[dim.substr(0, equals)] = size;
  }
  return sizes;
}

Expected<FusionLevel> parse_level(const std::string& text) {
  if (text == "none") return FusionLevel::None;
  if (text == "ops") return FusionLevel::Ops;
  if (text == "auto") return FusionLevel::Auto;
  return usage_error("fusion level '{}': there are none, ops and auto", text);
}

namespace {

// Leaves what it has found in `compiling`, and in the cache folder.
Status tune_model(const Graph& graph, const ModelOptions& options, std::span<const Tensor> inputs,
                  CompileOptions& compiling) {
  if (options.no_tuned) return usage_error("--tune and --no-tuned exclude each other");
  std::vector<Tensor> random;
  if (inputs.empty()) {
    OPWELD_TRY(const Bindings sizes, choose_sizes(graph, options.dims));
    OPWELD_TRY(random, example_inputs(graph, sizes, 1));
    inputs = random;
  }
  TuneOptions tuning;
  tuning.seconds = options.tune_seconds;
  tuning.folder = cache_folder();
  tuning.progress = [](const std::string& line) {
    fmt::print(stderr, "{}{}\n", isatty(STDERR_FILENO) != 0 ? "\r\x1b[K" : "", line);
  };
  auto tuned = tune(graph, compiling, inputs, tuning);
  if (!tuned) return tl::unexpected(tuned.error().with_context("tuning " + options.model));
  compiling.tuning = std::make_shared<const Tuning>(std::move(*tuned));
  return {};
}

// The command line has let through no other names.
std::vector<KernelKind> schedules_of(const std::vector<std::string>& names) {
  std::vector<KernelKind> kinds;
  for (const KernelKind kind : {KernelKind::Map, KernelKind::Row, KernelKind::Reduce,
                                KernelKind::Contract, KernelKind::Chain, KernelKind::Attention}) {
    if (std::ranges::find(names, to_string(kind)) != names.end()) kinds.push_back(kind);
  }
  return kinds;
}

}  // namespace

namespace {

// What the command line says of a compilation, tuning apart, with progress on a terminal.
CompileOptions compile_options(const ModelOptions& options, FusionLevel level,
                               CompileOptions base) {
  CompileOptions compiling = std::move(base);
  compiling.level = level;
  compiling.threads = options.threads;
  compiling.target = options.target;
  compiling.strict = options.numerics == "strict";
  compiling.without = schedules_of(options.without);
  compiling.attention_chains = options.attention_chains;
  compiling.chains_of_any_rows = options.chains_of_any_rows;
  if (options.linear_rules) compiling.rules = RuleSet::Linear;
  compiling.history = compiling.history || !options.require.empty();
  if (isatty(STDERR_FILENO) != 0) {
    compiling.progress = [](std::string_view pass) {
      fmt::print(stderr, "\r\x1b[Kcompiling: {}", pass);
      std::fflush(stderr);
    };
  }
  compiling.dump_after = options.dump_after;
  compiling.dump = [](std::string_view, const std::string& text) {
    fmt::print(stderr, "{}\n", text);
  };
  if (!options.no_tuned) compiling.tuning = stored_tuning(options.target);
  if (!options.no_cache) compiling.kept = compile_cache();
  return compiling;
}

// With the line of progress taken away, and the model's name before an error.
template <typename T>
Expected<T> finished(Expected<T> result, const ModelOptions& options) {
  if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\x1b[K");
  if (!result) return tl::unexpected(result.error().with_context(options.model));
  return result;
}

}  // namespace

Expected<Compiled> compile_model(const Graph& graph, const ModelOptions& options, FusionLevel level,
                                 CompileOptions base, std::span<const Tensor> inputs) {
  CompileOptions compiling = compile_options(options, level, std::move(base));
  if (options.tune) OPWELD_CHECK(tune_model(graph, options, inputs, compiling));
  return finished(compile(graph.clone(), compiling), options);
}

Expected<Planned> plan_model(const Graph& graph, const ModelOptions& options, FusionLevel level,
                             CompileOptions base) {
  return finished(plan_graph(graph.clone(), compile_options(options, level, std::move(base))),
                  options);
}

Status check_requirements(const Compiled& compiled, const ModelOptions& options,
                          const Bindings& sizes) {
  const Graph& graph = compiled.executable.graph();
  const ModelNames names(graph, compiled.history ? &*compiled.history : nullptr);
  return check_requirements({graph, compiled.executable.plan(sizes), sizes, names}, options);
}

Status check_requirements(const PlannedModel& planned, const ModelOptions& options) {
  std::vector<FusionPattern> patterns;
  for (const std::string& text : options.require) {
    OPWELD_TRY(FusionPattern pattern, parse_pattern(text));
    patterns.push_back(std::move(pattern));
  }
  for (const FusionPattern& pattern : patterns) OPWELD_CHECK(require_fusion(planned, pattern));
  return {};
}

namespace {

std::vector<std::shared_ptr<const SymbolInfo>> input_symbols(const Graph& graph) {
  std::vector<std::shared_ptr<const SymbolInfo>> symbols;
  for (const Value* input : graph.inputs()) {
    for (const Dim& dim : input->shape()) dim.collect_symbols(symbols);
  }
  return symbols;
}

}  // namespace

Expected<Bindings> choose_sizes(const Graph& graph, const std::vector<std::string>& dims) {
  OPWELD_TRY(auto asked, parse_dims(dims));
  Bindings bindings;
  std::vector<std::string> names;
  for (const auto& symbol : input_symbols(graph)) {
    names.push_back(symbol->name);
    const auto found = asked.find(symbol->name);
    const std::int64_t size = found == asked.end() ? usual_size(*symbol) : found->second;
    if (const Status fits = symbol->check(size); !fits) return tl::unexpected(fits.error());
    bindings.set(symbol->name, size);
    asked.erase(symbol->name);
  }
  if (!asked.empty()) {
    return usage_error("--dim: the model has no free dimension '{}'; it has {}",
                       asked.begin()->first,
                       names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
  }
  return bindings;
}

namespace {

Expected<NamedTensors> read_inputs(const std::vector<std::string>& arguments) {
  NamedTensors given;
  for (const std::string& argument : arguments) {
    const std::size_t equals = argument.find('=');
    if (argument.ends_with(".npz") && equals == std::string::npos) {
      OPWELD_TRY(NamedTensors all, read_npz(argument));
      given.insert(given.end(), all.begin(), all.end());
      continue;
    }
    if (equals == std::string::npos) {
      return usage_error("--input '{}': write NAME=FILE, or the name of an .npz", argument);
    }
    OPWELD_TRY(Tensor tensor, read_tensor(argument.substr(equals + 1)));
    given.emplace_back(argument.substr(0, equals), std::move(tensor));
  }
  return given;
}

}  // namespace

Expected<std::vector<Tensor>> find_inputs(const Graph& graph, const ModelOptions& model,
                                          const InputOptions& options) {
  OPWELD_TRY(const NamedTensors given, read_inputs(options.inputs));
  std::map<std::string, const Tensor*> by_name;
  for (const auto& [name, tensor] : given) by_name[name] = &tensor;
  std::vector<std::string> names;
  for (const Value* input : graph.inputs()) names.push_back(input->name());
  for (const auto& [name, tensor] : by_name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return usage_error("the model has no input '{}'; its inputs are {}", name,
                         fmt::join(names, ", "));
    }
  }
  // Sizes of inputs that are given bind the symbols of those that are not.
  std::vector<std::string> dims = model.dims;
  OPWELD_TRY(const auto asked, parse_dims(model.dims));
  for (const Value* input : graph.inputs()) {
    const auto found = by_name.find(input->name());
    if (found == by_name.end() || found->second->rank() != input->rank()) continue;
    for (int axis = 0; axis < input->rank(); ++axis) {
      const auto symbol = input->shape()[static_cast<std::size_t>(axis)].as_symbol();
      if (symbol == nullptr || asked.contains(symbol->name)) continue;
      dims.push_back(fmt::format("{}={}", symbol->name,
                                 found->second->sizes()[static_cast<std::size_t>(axis)]));
    }
  }
  OPWELD_TRY(const Bindings bindings, choose_sizes(graph, dims));
  std::vector<Tensor> inputs;
  unsigned seed = options.seed;
  for (const Value* input : graph.inputs()) {
    const auto found = by_name.find(input->name());
    if (found != by_name.end()) {
      inputs.push_back(*found->second);
    } else {
      OPWELD_TRY(Tensor tensor, example_input(input, bindings, seed));
      inputs.push_back(std::move(tensor));
    }
    ++seed;
  }
  return inputs;
}

RunOptions run_options(const ModelOptions& options) {
  RunOptions running;
  running.single_launch = options.single_launch;
  return running;
}

NamedTensors named_outputs(const Graph& graph, std::vector<Tensor> outputs) {
  NamedTensors named;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    named.emplace_back(graph.outputs()[i].name, std::move(outputs[i]));
  }
  return named;
}

}  // namespace opweld::cli
