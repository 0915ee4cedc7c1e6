// Model::write_report.
#include "api/compile_options.h"
#include "api/convert.h"
#include "model_page.h"
#include "runtime/example_inputs.h"

namespace opweld {

namespace {

Expected<std::vector<Tensor>> inputs_to_show(const Graph& graph, const PageSettings& page,
                                             const std::vector<TensorView>& views) {
  if (!views.empty() && !page.sizes.empty()) {
    return usage_error("sizes are those of the inputs where inputs are given");
  }
  if (!views.empty()) return input_tensors(graph, views);
  OPWELD_TRY(const Bindings sizes, sizes_to_run_at(graph, page.sizes, "sizes"));
  return example_inputs(graph, sizes, 1);
}

Status written(const Graph& model, const std::string& path, const CompileSettings& settings,
               const PageSettings& page, const std::vector<TensorView>& views) {
  constexpr int kMostRepeats = 1000;
  OPWELD_CHECK(check_settings(settings));
  if (page.repeats < 0 || page.repeats > kMostRepeats) {
    return usage_error("repeats: {} is not in [0, {}]", page.repeats, kMostRepeats);
  }
  OPWELD_CHECK(check_page_template());  // before anything that takes a while
  OPWELD_TRY(const Graph graph, declared_graph(model, settings));
  OPWELD_TRY(const std::vector<Tensor> inputs, inputs_to_show(graph, page, views));
  PageOptions options;
  options.model = page.name.empty() ? graph.name() : page.name;
  options.level = settings.fusion;
  options.target = settings.target;
  options.repeats = page.repeats;
  const auto compile_level = [&](FusionLevel level) {
    CompileOptions compiling = options_of(settings);
    compiling.level = level;
    return compile(graph.clone(), compiling);
  };
  OPWELD_TRY(const std::string json, model_page_json(graph, compile_level, options, inputs));
  return write_page(json, path).map([](std::size_t) {});
}

}  // namespace

Result<void> Model::write_report(const std::string& path, const CompileSettings& settings,
                                 const PageSettings& page,
                                 const std::vector<TensorView>& inputs) const {
  return to_result(written(state_->graph, path, settings, page, inputs));
}

}  // namespace opweld
