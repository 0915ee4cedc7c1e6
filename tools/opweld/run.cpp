// opweld run: one run of a model.
#include <memory>

#include "both/inputs.h"
#include "both/run_once.h"
#include "commands.h"
#include "compiled_file.h"
#include "model_options.h"
#include "ops/reference.h"

namespace opweld::cli {

namespace {

Status run_compiled(const RunArguments& arguments) {
  OPWELD_TRY(aot::LoadedModel loaded, load_compiled_file(arguments.model));
  OPWELD_TRY(const auto tensors,
             find_inputs(loaded.executable.graph(), arguments.model, arguments.inputs));
  OPWELD_TRY(const Bindings sizes, bind_symbols(loaded.executable.graph(), tensors));
  OPWELD_CHECK(check_requirements(loaded, arguments.model, sizes));
  return run_once(loaded.executable, tensors, arguments);
}

}  // namespace

Command add_run(CLI::App& app) {
  auto arguments = std::make_shared<RunArguments>();
  add_model_options(app, arguments->model);
  add_input_options(app, arguments->inputs);
  app.add_option("--output", arguments->output, "Keep the outputs in this .npz; else a summary");
  add_trace_option(app, arguments->trace);
  return of_either(arguments, run_compiled, &CompilingHalf::run);
}

}  // namespace opweld::cli
