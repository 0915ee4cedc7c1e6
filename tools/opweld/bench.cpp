// opweld bench: the time of a run, warm.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "compiled_file.h"
#include "ops/reference.h"
#include "report/account.h"
#include "session.h"
#include "trace_file.h"

namespace opweld::cli {

namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Memory for the results, kept from run to run: fresh pages cost as much as many a kernel does.
// What lies in place of an input is that input, in memory of its own.
Expected<std::vector<Tensor>> allocate_outputs(Executable& executable,
                                               std::vector<Tensor>& inputs) {
  OPWELD_TRY(std::vector<Sizes> sizes, executable.output_sizes(inputs));
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto& [name, value, in_place_of] = executable.graph().outputs()[i];
    if (in_place_of != nullptr) {
      const auto declared = executable.graph().inputs();
      const auto input = std::find(declared.begin(), declared.end(), in_place_of);
      Tensor& tensor = inputs[static_cast<std::size_t>(input - declared.begin())];
      OPWELD_TRY(tensor, tensor.clone());
      outputs.push_back(tensor);
      continue;
    }
    auto output = Tensor::allocate(value->dtype(), std::move(sizes[i]));
    if (!output) {
      return tl::unexpected(output.error().with_context(fmt::format("output '{}'", name)));
    }
    outputs.push_back(std::move(*output));
  }
  return outputs;
}

Expected<double> timed_run(Executable& executable, const std::vector<Tensor>& inputs,
                           std::vector<Tensor>& outputs, const RunOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  OPWELD_CHECK(executable.run_into(inputs, outputs, nullptr, options));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct BenchCommand {
  ModelOptions model;
  InputOptions inputs;
  std::string output;
  int repeats = 20;
  int warmup = 3;
  bool compare = false;
  bool profile = false;
  bool paced = false;
  bool cache = false;
  std::string trace;

  Status operator()() const {
    if (paced && !trace.empty()) return usage_error("--trace and --paced exclude each other");
    if (compare && !trace.empty()) {
      return usage_error("--trace is of one run: leave out --compare, and say --fusion instead");
    }
    if (is_compiled_file(model.model)) return bench_compiled_file();
    OPWELD_TRY(const Graph graph, load_model(model));
    OPWELD_TRY(std::vector<Tensor> tensors, find_inputs(graph, model, inputs));
    std::vector<std::string> levels = {model.fusion};
    if (compare && !paced) levels = {"none", "ops", "auto"};
    std::vector<Compiled> compiled;
    for (const std::string& name : levels) {
      OPWELD_TRY(const FusionLevel level, parse_level(name));
      OPWELD_TRY(Compiled each, compile_model(graph, model, level, {}, tensors));
      // Of the levels that are compared, it is the one asked for that is held to it.
      if (name == model.fusion) OPWELD_CHECK(hold_to_requirements(each, tensors));
      compiled.push_back(std::move(each));
    }
    if (paced) return run_paced(compiled.front(), std::move(tensors));
    return time_by_turns(levels, compiled, std::move(tensors));
  }

 private:
  Status bench_compiled_file() const {
    if (compare) {
      return usage_error("{}: --compare compiles at each level of fusion, which takes the model",
                         model.model);
    }
    std::vector<Compiled> compiled;
    OPWELD_TRY(Compiled loaded, load_compiled(model));
    compiled.push_back(std::move(loaded));
    const Graph& graph = compiled.front().executable.graph();
    OPWELD_TRY(std::vector<Tensor> tensors, find_inputs(graph, model, inputs));
    if (paced) return run_paced(compiled.front(), std::move(tensors));
    return time_by_turns({std::string(to_string(compiled.front().executable.plan().level))},
                         compiled, std::move(tensors));
  }

  Status time_by_turns(const std::vector<std::string>& levels, std::vector<Compiled>& compiled,
                       std::vector<Tensor> tensors) const {
    std::vector<Contestant> contestants;
    for (std::size_t i = 0; i < levels.size(); ++i) {
      if (compare || !model.single_launch) contestants.push_back({levels[i], i, false, {}});
      if (model.single_launch) contestants.push_back({levels[i], i, true, {}});
    }
    std::vector<Tensor> outputs;
    OPWELD_TRY(outputs, allocate_outputs(compiled.front().executable, tensors));
    for (const Contestant& each : contestants) {
      for (int i = 0; i < warmup; ++i) {
        OPWELD_CHECK(
            timed_run(compiled[each.program].executable, tensors, outputs, options_of(each)));
      }
    }
    // They take turns, so that a slow moment of the machine falls on all of them.
    for (int i = 0; i < repeats; ++i) {
      for (Contestant& each : contestants) {
        OPWELD_TRY(const double seconds, timed_run(compiled[each.program].executable, tensors,
                                                   outputs, options_of(each)));
        each.seconds.push_back(seconds);
      }
    }
    for (const Contestant& each : contestants) {
      OPWELD_CHECK(report(each, compiled[each.program], tensors, outputs));
    }
    if (!trace.empty()) {
      return trace_run(compiled.back().executable, tensors, outputs, run_options(model));
    }
    return {};
  }

  // A level of fusion, kernel by kernel or in one launch.
  struct Contestant {
    std::string level;
    std::size_t program = 0;
    bool single_launch = false;
    std::vector<double> seconds;
  };

  Status hold_to_requirements(const Compiled& each, const std::vector<Tensor>& tensors) const {
    OPWELD_TRY(const Bindings sizes, bind_symbols(each.executable.graph(), tensors));
    return check_requirements(each, model, sizes);
  }

  static RunOptions options_of(const Contestant& contestant) {
    RunOptions options;
    options.single_launch = contestant.single_launch;
    return options;
  }

  // Of a run by itself, so that none that is timed looks at more clocks than it has to.
  Status trace_run(Executable& executable, const std::vector<Tensor>& tensors,
                   std::vector<Tensor>& outputs, RunOptions options) const {
    options.trace = true;
    RunStats stats;
    OPWELD_CHECK(executable.run_into(tensors, outputs, &stats, options));
    OPWELD_TRY(const Bindings sizes, bind_symbols(executable.graph(), tensors));
    return write_trace(trace, executable, sizes, stats);
  }

  Status report(const Contestant& contestant, Compiled& compiled,
                const std::vector<Tensor>& tensors, std::vector<Tensor>& outputs) const {
    OPWELD_TRY(const RunStats stats,
               statistics(compiled.executable, tensors, outputs, options_of(contestant)));
    OPWELD_TRY(const Bindings sizes, bind_symbols(compiled.executable.graph(), tensors));
    const std::size_t version = compiled.executable.version_for(sizes);
    const FusionPlan& plan = compiled.executable.versions()[version].plan;
    const double middle = median(contestant.seconds);
    if (model.json) {
      nlohmann::ordered_json json = {{"fusion", contestant.level},
                                     {"single_launch", contestant.single_launch},
                                     {"median_seconds", middle},
                                     {"least_seconds", *std::min_element(contestant.seconds.begin(),
                                                                         contestant.seconds.end())},
                                     {"repeats", repeats},
                                     {"threads", compiled.executable.threads()},
                                     {"compile_seconds", compiled.seconds()}};
      for (const PassTime& each : compiled.times) json["passes"][each.pass] = each.seconds;
      json["found"] = {{"plan", compiled.found.plan},
                       {"functions", compiled.found.functions},
                       {"all_functions", compiled.found.all_functions}};
      json.update(counts_json(stats));
      OPWELD_TRY(json["memory"],
                 memory_json(compiled.executable, tensors, contestant.single_launch));
      json["tuning"] = compiled.tuning_log(version);
      if (profile) json["profile"] = profile_json(plan, stats);
      fmt::print("{}\n", json.dump());
      return {};
    }
    fmt::print(
        "{:>5}: median {:.3f} ms of {}, {} kernels in {} launch{}, {} read, {} written, compiled "
        "in {:.2f} s\n",
        contestant.level, middle * 1e3, repeats, stats.kernels, stats.launches,
        stats.launches == 1 ? "" : "es", human_bytes(static_cast<double>(stats.bytes_read)),
        human_bytes(static_cast<double>(stats.bytes_written)), compiled.seconds());
    for (const std::string& line : compiled.tuning_log(version)) fmt::print("  {}\n", line);
    if (profile) print_profile(plan, stats);
    return {};
  }

  static nlohmann::ordered_json counts_json(const RunStats& stats) {
    return {{"kernels", stats.kernels},
            {"launches", stats.launches},
            {"barriers", stats.barriers},
            {"read_bytes", stats.bytes_read},
            {"written_bytes", stats.bytes_written}};
  }

  // What the model holds for a run on these inputs.
  static Expected<nlohmann::ordered_json> memory_json(const Executable& executable,
                                                      const std::vector<Tensor>& tensors,
                                                      bool single_launch) {
    OPWELD_TRY(const Bindings bindings, bind_symbols(executable.graph(), tensors));
    OPWELD_TRY(const MemoryAccount memory, executable.memory(bindings, single_launch));
    return nlohmann::ordered_json{{"weight_bytes", memory.weight_bytes},
                                  {"held_weight_bytes", memory.held_weight_bytes},
                                  {"arena_bytes", memory.arena_bytes},
                                  {"scratch_bytes", memory.scratch_bytes},
                                  {"live_bytes", memory.live_bytes}};
  }

  // What a run counts; with --profile the time of each kernel is the median of `repeats` runs.
  Expected<RunStats> statistics(Executable& executable, const std::vector<Tensor>& tensors,
                                std::vector<Tensor>& outputs, RunOptions options) const {
    options.profile = profile;
    RunStats stats;
    std::vector<std::vector<double>> times;
    for (int i = 0; i < (profile ? repeats : 1); ++i) {
      stats = {};
      OPWELD_CHECK(executable.run_into(tensors, outputs, &stats, options));
      times.resize(stats.by_kernel.size());
      for (std::size_t k = 0; k < times.size(); ++k) {
        times[k].push_back(stats.by_kernel[k].seconds);
      }
    }
    for (std::size_t k = 0; k < times.size(); ++k) stats.by_kernel[k].seconds = median(times[k]);
    return stats;
  }

  static nlohmann::ordered_json profile_json(const FusionPlan& plan, const RunStats& stats) {
    nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < stats.by_kernel.size(); ++i) {
      const Kernel& kernel = plan.kernels[i];
      kernels.push_back({{"label", kernel.label},
                         {"kind", to_string(kernel.kind)},
                         {"median_seconds", stats.by_kernel[i].seconds},
                         {"read_bytes", stats.by_kernel[i].bytes_read},
                         {"written_bytes", stats.by_kernel[i].bytes_written}});
    }
    return kernels;
  }

  static void print_profile(const FusionPlan& plan, const RunStats& stats) {
    for (std::size_t i = 0; i < stats.by_kernel.size(); ++i) {
      const Kernel& kernel = plan.kernels[i];
      const KernelStats& kernel_stats = stats.by_kernel[i];
      const double bytes =
          static_cast<double>(kernel_stats.bytes_read + kernel_stats.bytes_written);
      fmt::print("  {:>9.1f} us  {:>6.1f} GB/s  {:<10} {}\n", kernel_stats.seconds * 1e6,
                 bytes / kernel_stats.seconds / 1e9, to_string(kernel.kind), kernel.label);
    }
  }

  // Runs when told: one line of standard input, one run, its seconds; so that several engines can
  // take turns under one clock.
  Status run_paced(Compiled& compiled, std::vector<Tensor> tensors) const {
    const Graph& graph = compiled.executable.graph();
    RunStats stats;
    OPWELD_TRY(std::vector<Tensor> outputs, allocate_outputs(compiled.executable, tensors));
    const RunOptions options = run_options(model);
    OPWELD_CHECK(compiled.executable.run_into(tensors, outputs, &stats, options));
    if (!output.empty()) OPWELD_CHECK(write_npz(output, named_outputs(graph, outputs)));
    nlohmann::ordered_json json = counts_json(stats);
    json["compile_seconds"] = compiled.seconds();
    OPWELD_TRY(json["memory"], memory_json(compiled.executable, tensors, model.single_launch));
    std::cout << json.dump() << '\n' << std::flush;
    for (std::string line; std::getline(std::cin, line);) {
      OPWELD_TRY(const double seconds, timed_run(compiled.executable, tensors, outputs, options));
      std::cout << fmt::format("{:.9f}", seconds) << '\n' << std::flush;
    }
    return {};
  }
};

}  // namespace

Command add_bench(CLI::App& app) {
  auto command = std::make_shared<BenchCommand>();
  add_model_options(app, command->model);
  app.add_flag("--cache", command->cache,
               "Take plans and code from the cache folder, as other commands do: the time of "
               "compiling is then that of a second start");
  add_input_options(app, command->inputs);
  app.add_option("--repeats", command->repeats, "Timed runs, of which the median is told")
      ->check(CLI::Range(1, 100000));
  app.add_option("--warmup", command->warmup, "Runs before those")->check(CLI::Range(0, 1000));
  app.add_flag("--compare", command->compare,
               "All three levels of fusion, taking turns; with --single-launch each of them kernel "
               "by kernel and in one launch");
  app.add_flag("--profile", command->profile,
               "The time of each kernel, the median of --repeats runs");
  app.add_flag("--paced", command->paced,
               "One run for each line of standard input, its seconds as the answer");
  add_trace_option(app, command->trace);
  app.add_option("--output", command->output, "With --paced: keep the outputs of the first run");
  return [command] {
    command->model.no_cache = command->model.no_cache || !command->cache;
    return (*command)();
  };
}

}  // namespace opweld::cli
