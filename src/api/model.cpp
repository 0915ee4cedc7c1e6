#include "opweld/model.h"

#include "api/compile_options.h"
#include "api/convert.h"
#include "graph/text.h"
#include "load.h"
#include "ops/builder.h"
#include "ops/reference.h"
#include "report/account.h"
#include "runtime/example_inputs.h"
#include "support/cache_folder.h"
#include "tune.h"

namespace opweld {

Size to_size(const Dim& dim) {
  if (const auto constant = dim.constant()) return {*constant};
  return {dim.to_string()};
}

std::vector<Size> to_sizes(const Shape& shape) {
  std::vector<Size> sizes;
  sizes.reserve(shape.size());
  for (const Dim& dim : shape) sizes.push_back(to_size(dim));
  return sizes;
}

std::vector<TensorInfo> input_infos(const Graph& graph) {
  std::vector<TensorInfo> infos;
  for (const Value* input : graph.inputs()) {
    infos.push_back({input->name(), input->dtype(), to_sizes(input->shape())});
  }
  return infos;
}

std::vector<TensorInfo> output_infos(const Graph& graph) {
  std::vector<TensorInfo> infos;
  for (const auto& output : graph.outputs()) {
    infos.push_back({output.name, output.value->dtype(), to_sizes(output.value->shape())});
  }
  return infos;
}

std::string TensorInfo::to_string() const {
  std::string list;
  for (const Size& size : sizes) list += (list.empty() ? "" : ", ") + size.text();
  return fmt::format("{}: {}[{}]", name, opweld::to_string(dtype), list);
}

namespace {

Result<std::shared_ptr<const detail::ModelState>> checked_state(Expected<Graph> graph) {
  if (!graph) return std::move(graph.error());
  return std::make_shared<const detail::ModelState>(detail::ModelState{std::move(*graph)});
}

}  // namespace

Model::Model(std::shared_ptr<const detail::ModelState> state) : state_(std::move(state)) {}

Result<Model> Model::load(const std::string& path) {
  auto state = checked_state(load_graph(path));
  if (!state) return state.error();
  return Model(*state);
}

Result<Model> Model::parse(std::string_view text) {
  auto state = checked_state(parse_graph(text));
  if (!state) return state.error();
  return Model(*state);
}

std::vector<TensorInfo> Model::inputs() const {
  return input_infos(state_->graph);
}

std::vector<TensorInfo> Model::outputs() const {
  return output_infos(state_->graph);
}

std::vector<std::string> Model::symbols() const {
  std::vector<std::string> names;
  for (const Dim& symbol : state_->graph.symbols()) names.push_back(symbol.as_symbol()->name);
  return names;
}

std::string Model::text() const {
  return to_text(state_->graph);
}

namespace {

Expected<std::vector<HostTensor>> evaluate_in_f64(const Graph& graph,
                                                  const std::vector<TensorView>& views) {
  OPWELD_TRY(const std::vector<Tensor> inputs, input_tensors(graph, views));
  const ReferenceOptions options{.in_f64 = true, .constants_as_stored = true, .observer = {}};
  OPWELD_TRY(const std::vector<Tensor> outputs, evaluate(graph, inputs, options));
  std::vector<HostTensor> results;
  for (const Tensor& output : outputs) {
    // An output may be an input or a constant as it is, which others have a hand on.
    OPWELD_TRY(Tensor own, output.clone());
    results.push_back(to_host_tensor(std::move(own)));
  }
  return results;
}

}  // namespace

Result<std::vector<HostTensor>> Model::reference(const std::vector<TensorView>& inputs) const {
  return to_result(evaluate_in_f64(state_->graph, inputs));
}

namespace {

Expected<Tuning> tuned_for(const Graph& graph, const CompileSettings& settings,
                           const CompileOptions& options) {
  OPWELD_TRY(const Bindings sizes, sizes_to_run_at(graph, settings.tune_sizes, "tune_sizes"));
  OPWELD_TRY(const std::vector<Tensor> inputs, example_inputs(graph, sizes, 1));
  TuneOptions tuning;
  tuning.seconds = settings.tune_seconds;
  tuning.folder = cache_folder();
  return tune(graph, options, inputs, tuning);
}

}  // namespace

Result<Program> Model::compile(const CompileSettings& settings) const {
  if (const Status checked = check_settings(settings); !checked) return checked.error();
  auto graph = declared_graph(state_->graph, settings);
  if (!graph) return std::move(graph.error());
  CompileOptions options = options_of(settings);
  options.keep_objects = true;  // for Program::save
  if (settings.tune_seconds > 0) {
    auto tuning = tuned_for(*graph, settings, options);
    if (!tuning) return tuning.error().with_context("tuning");
    options.tuning = std::make_shared<const Tuning>(std::move(*tuning));
  }
  auto compiled = opweld::compile(std::move(*graph), options);
  if (!compiled) return std::move(compiled.error());
  const double seconds = compiled->seconds();
  aot::Origin origin{OPWELD_VERSION,     settings.target,
                     compiled->features, std::string(to_string(settings.fusion)),
                     options.strict,     compiled->executable.threads()};
  return Program(std::make_shared<detail::ProgramState>(detail::ProgramState{
      std::move(*compiled), seconds, settings.single_launch, std::move(origin)}));
}

}  // namespace opweld
