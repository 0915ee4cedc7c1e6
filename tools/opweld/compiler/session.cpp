#include "compiler/session.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "compile_cache.h"
#include "compiler/plugins.h"
#include "rewrite/in_place.h"
#include "runtime/example_inputs.h"
#include "support/cache_folder.h"
#include "tune.h"

namespace opweld::cli {

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

}  // namespace opweld::cli
