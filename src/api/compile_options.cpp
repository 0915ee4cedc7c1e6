#include "api/compile_options.h"

#include "api/convert.h"
#include "compile_cache.h"
#include "report/usual_sizes.h"
#include "rewrite/in_place.h"
#include "tune.h"

namespace opweld {

Status check_settings(const CompileSettings& settings) {
  constexpr int kMostThreads = 1024;
  if (settings.threads < 0 || settings.threads > kMostThreads) {
    return usage_error("threads: {} is not in [0, {}]", settings.threads, kMostThreads);
  }
  if (settings.fusion > FusionLevel::Auto || settings.numerics > Numerics::Strict) {
    return usage_error("the level of fusion or numerics is none that there is");
  }
  constexpr double kMostSeconds = 86400;
  if (!(settings.tune_seconds >= 0 && settings.tune_seconds <= kMostSeconds)) {
    return usage_error("tune_seconds: {} is not in [0, {}]", settings.tune_seconds, kMostSeconds);
  }
  if (settings.tune_seconds > 0 && !settings.tuned) {
    return usage_error("tune_seconds asks to measure what tuned = false leaves aside");
  }
  return {};
}

Expected<Graph> declared_graph(const Graph& model, const CompileSettings& settings) {
  Graph graph = model.clone();
  for (const auto& [output, input] : settings.in_place) {
    OPWELD_CHECK(declare_in_place(graph, output, input));
  }
  return graph;
}

CompileOptions options_of(const CompileSettings& settings) {
  CompileOptions options;
  options.level = settings.fusion;
  options.threads = settings.threads;
  options.target = settings.target;
  options.strict = settings.numerics == Numerics::Strict;
  options.history = true;
  if (settings.tuned) options.tuning = stored_tuning(settings.target);
  if (settings.cached) options.kept = compile_cache();
  return options;
}

Expected<Bindings> sizes_to_run_at(const Graph& graph, SymbolValues asked, std::string_view what) {
  Bindings sizes;
  for (const Dim& dim : graph.symbols()) {
    const auto symbol = dim.as_symbol();
    const auto found = asked.find(symbol->name);
    const std::int64_t size = found == asked.end() ? usual_size(*symbol) : found->second;
    OPWELD_CHECK(symbol->check(size));
    sizes.set(symbol->name, size);
    asked.erase(symbol->name);
  }
  if (asked.empty()) return sizes;
  return usage_error("{}: the model has no free size '{}'", what, asked.begin()->first);
}

Expected<std::vector<Tensor>> input_tensors(const Graph& graph,
                                            const std::vector<TensorView>& views) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < views.size(); ++i) {
    OPWELD_TRY(Tensor tensor, to_tensor(views[i], input_label(graph, i)));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace opweld
