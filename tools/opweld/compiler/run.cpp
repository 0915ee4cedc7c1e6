// opweld run of a model that is not compiled yet.
#include "both/run_once.h"
#include "compiler/session.h"
#include "compiler/subcommands.h"
#include "ops/reference.h"

namespace opweld::cli {

Status run_model(const RunArguments& arguments) {
  const ModelOptions& model = arguments.model;
  OPWELD_TRY(const Graph graph, load_model(model));
  OPWELD_TRY(const FusionLevel level, parse_level(model.fusion));
  OPWELD_TRY(const std::vector<Tensor> tensors, find_inputs(graph, model, arguments.inputs));
  OPWELD_TRY(Compiled compiled, compile_model(graph, model, level, {}, tensors));
  OPWELD_TRY(const Bindings sizes, bind_symbols(compiled.executable.graph(), tensors));
  OPWELD_CHECK(check_requirements(compiled, model, sizes));
  return run_once(compiled.executable, tensors, arguments);
}

}  // namespace opweld::cli
