// opweld run: one run of a model.
#include <algorithm>
#include <memory>

#include "commands.h"
#include "compiled_file.h"
#include "ops/reference.h"
#include "session.h"
#include "trace_file.h"

namespace opweld::cli {

namespace {

// "hidden: f32 [1, 128, 384], from -1.2 to 3.4, first 0.1 0.2 0.3"
std::string summary(const std::string& name, const Tensor& tensor) {
  std::string text =
      fmt::format("{}: {} {}", name, to_string(tensor.dtype()), to_string(tensor.sizes()));
  if (tensor.num_elements() == 0) return text + ", empty";
  double least = tensor.get_double(0);
  double greatest = least;
  for (std::int64_t i = 1; i < tensor.num_elements(); ++i) {
    least = std::min(least, tensor.get_double(i));
    greatest = std::max(greatest, tensor.get_double(i));
  }
  text += fmt::format(", from {:.6g} to {:.6g}, first", least, greatest);
  constexpr std::int64_t kShown = 6;
  for (std::int64_t i = 0; i < std::min(kShown, tensor.num_elements()); ++i) {
    text += fmt::format(" {:.6g}", tensor.get_double(i));
  }
  return text;
}

struct RunCommand {
  ModelOptions model;
  InputOptions inputs;
  std::string output;
  std::string trace;

  Status operator()() const {
    if (is_compiled_file(model.model)) {
      OPWELD_TRY(Compiled loaded, load_compiled(model));
      OPWELD_TRY(const auto tensors, find_inputs(loaded.executable.graph(), model, inputs));
      return run(loaded.executable, tensors);
    }
    OPWELD_TRY(const Graph graph, load_model(model));
    OPWELD_TRY(const FusionLevel level, parse_level(model.fusion));
    OPWELD_TRY(const std::vector<Tensor> tensors, find_inputs(graph, model, inputs));
    OPWELD_TRY(Compiled compiled, compile_model(graph, model, level, {}, tensors));
    OPWELD_TRY(const Bindings sizes, bind_symbols(compiled.executable.graph(), tensors));
    OPWELD_CHECK(check_requirements(compiled, model, sizes));
    return run(compiled.executable, tensors);
  }

 private:
  Status run(Executable& executable, const std::vector<Tensor>& tensors) const {
    RunOptions options = run_options(model);
    options.trace = !trace.empty();
    RunStats stats;
    OPWELD_TRY(std::vector<Tensor> outputs, executable.run(tensors, &stats, options));
    if (options.trace) {
      OPWELD_TRY(const Bindings sizes, bind_symbols(executable.graph(), tensors));
      OPWELD_CHECK(write_trace(trace, executable, sizes, stats));
    }
    const NamedTensors named = named_outputs(executable.graph(), std::move(outputs));
    if (!output.empty()) return write_npz(output, named);
    for (const auto& [name, tensor] : named) fmt::print("{}\n", summary(name, tensor));
    return {};
  }
};

}  // namespace

Command add_run(CLI::App& app) {
  auto command = std::make_shared<RunCommand>();
  add_model_options(app, command->model);
  add_input_options(app, command->inputs);
  app.add_option("--output", command->output, "Keep the outputs in this .npz; else a summary");
  add_trace_option(app, command->trace);
  return [command] { return (*command)(); };
}

}  // namespace opweld::cli
