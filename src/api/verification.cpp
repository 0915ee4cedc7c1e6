#include "opweld/verification.h"

#include "api/compile_options.h"
#include "api/convert.h"
#include "model_check.h"
#include "ops/reference.h"

namespace opweld {

namespace {

Verification to_verification(ModelCheck check) {
  Verification result;
  for (OutputVerdict& each : check.outputs) {
    result.outputs.push_back({std::move(each.name), each.to_unfused, each.to_reference,
                              each.of_tolerance, std::move(each.fault)});
  }
  for (KernelVerdict& each : check.kernels) {
    result.kernels.push_back({std::move(each.kernel), std::move(each.operators),
                              std::move(each.layer), each.largest_difference,
                              std::move(each.fault)});
  }
  result.custom_operators = check.custom.compared;
  result.fault = std::move(check.fault);
  return result;
}

Expected<Verification> verified(const Graph& model, const std::vector<TensorView>& views,
                                const CompileSettings& settings) {
  OPWELD_CHECK(check_settings(settings));
  OPWELD_TRY(const std::vector<Tensor> inputs, input_tensors(model, views));
  OPWELD_CHECK(bind_symbols(model, inputs).map([](const Bindings&) {}));  // before compiling
  OPWELD_TRY(Graph graph, declared_graph(model, settings));
  CompileOptions options = options_of(settings);
  // The graphs that were compiled are evaluated again.
  options.keep_constants = true;
  OPWELD_TRY(Compiled fused, compile(graph.clone(), options));
  options.level = FusionLevel::None;
  options.tuning = nullptr;
  OPWELD_TRY(Compiled unfused, compile(graph.clone(), options));
  OPWELD_TRY(ModelCheck check,
             check_model(graph, fused, unfused,
                         {settings.target, options.strict, settings.single_launch}, inputs));
  return to_verification(std::move(check));
}

}  // namespace

Result<Verification> Model::verify(const std::vector<TensorView>& inputs,
                                   const CompileSettings& settings) const {
  return to_result(verified(state_->graph, inputs, settings));
}

}  // namespace opweld
