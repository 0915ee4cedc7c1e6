// opweld bench: the time of a run, warm.
#include <chrono>
#include <memory>

#include "both/bench_runs.h"
#include "both/inputs.h"
#include "commands.h"
#include "compiled_file.h"
#include "model_options.h"
#include "ops/reference.h"
#include "report/account.h"

namespace opweld::cli {

namespace {

// Its one pass is loading.
Status bench_compiled(const BenchArguments& arguments) {
  OPWELD_CHECK(check_arguments(arguments));
  const ModelOptions& model = arguments.model;
  if (arguments.compare) {
    return usage_error("{}: --compare compiles at each level of fusion, which takes the model",
                       model.model);
  }
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  OPWELD_TRY(aot::LoadedModel loaded, load_compiled_file(model));
  const std::chrono::duration<double> seconds = Clock::now() - start;
  const Graph& graph = loaded.executable.graph();
  OPWELD_TRY(std::vector<Tensor> tensors, find_inputs(graph, model, arguments.inputs));
  OPWELD_TRY(const Bindings sizes, bind_symbols(graph, tensors));
  OPWELD_CHECK(check_requirements(loaded, model, sizes));
  const std::string level(to_string(loaded.executable.plan().level));
  std::vector<BenchSubject> subjects;
  BenchSubject& subject = subjects.emplace_back(BenchSubject{
      level, std::move(loaded.executable), seconds.count(), {{"load", seconds.count()}}});
  subject.tuning.resize(subject.executable.versions().size());
  return bench_runs(arguments, std::move(subjects), std::move(tensors));
}

}  // namespace

Command add_bench(CLI::App& app) {
  auto arguments = std::make_shared<BenchArguments>();
  add_model_options(app, arguments->model);
  app.add_flag("--cache", arguments->cache,
               "Take plans and code from the cache folder, as other commands do: the time of "
               "compiling is then that of a second start");
  add_input_options(app, arguments->inputs);
  app.add_option("--repeats", arguments->repeats, "Timed runs, of which the median is told")
      ->check(CLI::Range(1, 100000));
  app.add_option("--warmup", arguments->warmup, "Runs before those")->check(CLI::Range(0, 1000));
  app.add_flag("--compare", arguments->compare,
               "All three levels of fusion, taking turns; with --single-launch each of them kernel "
               "by kernel and in one launch");
  app.add_flag("--profile", arguments->profile,
               "The time of each kernel, the median of --repeats runs");
  app.add_flag("--paced", arguments->paced,
               "One run for each line of standard input, its seconds as the answer");
  add_trace_option(app, arguments->trace);
  app.add_option("--output", arguments->output, "With --paced: keep the outputs of the first run");
  return of_either(arguments, bench_compiled, &CompilingHalf::bench);
}

}  // namespace opweld::cli
