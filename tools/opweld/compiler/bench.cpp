// opweld bench of a model that is not compiled yet.
#include "both/bench_runs.h"
#include "compiler/session.h"
#include "compiler/subcommands.h"
#include "ops/reference.h"

namespace opweld::cli {

namespace {

BenchSubject subject_of(const std::string& level, Compiled compiled) {
  BenchSubject subject{level, std::move(compiled.executable), compiled.seconds(), {}};
  for (const PassTime& each : compiled.times) subject.passes.emplace_back(each.pass, each.seconds);
  subject.found = {compiled.found.plan, compiled.found.functions, compiled.found.all_functions};
  const auto versions = subject.executable.versions();
  for (std::size_t i = 0; i < versions.size(); ++i) {
    subject.tuning.push_back(tuning_lines(versions[i].plan, i, compiled.tunable));
  }
  return subject;
}

}  // namespace

Status bench_model(const BenchArguments& arguments) {
  OPWELD_CHECK(check_arguments(arguments));
  ModelOptions model = arguments.model;
  model.no_cache = model.no_cache || !arguments.cache;
  OPWELD_TRY(const Graph graph, load_model(model));
  OPWELD_TRY(std::vector<Tensor> tensors, find_inputs(graph, model, arguments.inputs));
  std::vector<std::string> levels = {model.fusion};
  if (arguments.compare && !arguments.paced) levels = {"none", "ops", "auto"};
  std::vector<BenchSubject> subjects;
  for (const std::string& name : levels) {
    OPWELD_TRY(const FusionLevel level, parse_level(name));
    OPWELD_TRY(Compiled each, compile_model(graph, model, level, {}, tensors));
    // Of the levels that are compared, it is the one asked for that is held to it.
    if (name == model.fusion) {
      OPWELD_TRY(const Bindings sizes, bind_symbols(each.executable.graph(), tensors));
      OPWELD_CHECK(check_requirements(each, model, sizes));
    }
    subjects.push_back(subject_of(name, std::move(each)));
  }
  return bench_runs(arguments, std::move(subjects), std::move(tensors));
}

}  // namespace opweld::cli
