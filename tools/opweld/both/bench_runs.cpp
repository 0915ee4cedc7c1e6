#include "both/bench_runs.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "both/inputs.h"
#include "both/trace_file.h"
#include "ops/reference.h"
#include "report/account.h"

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

class Bench : BenchArguments {
 public:
  explicit Bench(const BenchArguments& arguments) : BenchArguments(arguments) {}

  Status operator()(std::vector<BenchSubject> subjects, std::vector<Tensor> tensors) const {
    if (paced) return run_paced(subjects.front(), std::move(tensors));
    return time_by_turns(subjects, std::move(tensors));
  }

 private:
  Status time_by_turns(std::vector<BenchSubject>& subjects, std::vector<Tensor> tensors) const {
    std::vector<Contestant> contestants;
    for (std::size_t i = 0; i < subjects.size(); ++i) {
      if (compare || !model.single_launch) contestants.push_back({i, false, {}});
      if (model.single_launch) contestants.push_back({i, true, {}});
    }
    std::vector<Tensor> outputs;
    OPWELD_TRY(outputs, allocate_outputs(subjects.front().executable, tensors));
    for (const Contestant& each : contestants) {
      for (int i = 0; i < warmup; ++i) {
        OPWELD_CHECK(
            timed_run(subjects[each.subject].executable, tensors, outputs, options_of(each)));
      }
    }
    // They take turns, so that a slow moment of the machine falls on all of them.
    for (int i = 0; i < repeats; ++i) {
      for (Contestant& each : contestants) {
        OPWELD_TRY(const double seconds, timed_run(subjects[each.subject].executable, tensors,
                                                   outputs, options_of(each)));
        each.seconds.push_back(seconds);
      }
    }
    for (const Contestant& each : contestants) {
      OPWELD_CHECK(report(each, subjects[each.subject], tensors, outputs));
    }
    if (!trace.empty()) {
      return trace_run(subjects.back().executable, tensors, outputs, run_options(model));
    }
    return {};
  }

  // A level of fusion, kernel by kernel or in one launch.
  struct Contestant {
    std::size_t subject = 0;
    bool single_launch = false;
    std::vector<double> seconds;
  };

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

  Status report(const Contestant& contestant, BenchSubject& subject,
                const std::vector<Tensor>& tensors, std::vector<Tensor>& outputs) const {
    OPWELD_TRY(const RunStats stats,
               statistics(subject.executable, tensors, outputs, options_of(contestant)));
    OPWELD_TRY(const Bindings sizes, bind_symbols(subject.executable.graph(), tensors));
    const std::size_t version = subject.executable.version_for(sizes);
    const FusionPlan& plan = subject.executable.versions()[version].plan;
    const double middle = median(contestant.seconds);
    if (model.json) {
      nlohmann::ordered_json json = {{"fusion", subject.level},
                                     {"single_launch", contestant.single_launch},
                                     {"median_seconds", middle},
                                     {"least_seconds", *std::min_element(contestant.seconds.begin(),
                                                                         contestant.seconds.end())},
                                     {"repeats", repeats},
                                     {"threads", subject.executable.threads()},
                                     {"compile_seconds", subject.seconds}};
      for (const auto& [pass, seconds] : subject.passes) json["passes"][pass] = seconds;
      json["found"] = {{"plan", subject.found.plan},
                       {"functions", subject.found.functions},
                       {"all_functions", subject.found.all_functions}};
      json.update(counts_json(stats));
      OPWELD_TRY(json["memory"],
                 memory_json(subject.executable, tensors, contestant.single_launch));
      json["tuning"] = subject.tuning[version];
      if (profile) json["profile"] = profile_json(plan, stats);
      fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
      return {};
    }
    fmt::print(
        "{:>5}: median {:.3f} ms of {}, {} kernels in {} launch{}, {} read, {} written, compiled "
        "in {:.2f} s\n",
        subject.level, middle * 1e3, repeats, stats.kernels, stats.launches,
        stats.launches == 1 ? "" : "es", human_bytes(static_cast<double>(stats.bytes_read)),
        human_bytes(static_cast<double>(stats.bytes_written)), subject.seconds);
    for (const std::string& line : subject.tuning[version]) fmt::print("  {}\n", line);
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
  Status run_paced(BenchSubject& subject, std::vector<Tensor> tensors) const {
    const Graph& graph = subject.executable.graph();
    RunStats stats;
    OPWELD_TRY(std::vector<Tensor> outputs, allocate_outputs(subject.executable, tensors));
    const RunOptions options = run_options(model);
    OPWELD_CHECK(subject.executable.run_into(tensors, outputs, &stats, options));
    if (!output.empty()) OPWELD_CHECK(write_npz(output, named_outputs(graph, outputs)));
    nlohmann::ordered_json json = counts_json(stats);
    json["compile_seconds"] = subject.seconds;
    OPWELD_TRY(json["memory"], memory_json(subject.executable, tensors, model.single_launch));
    std::cout << json.dump() << '\n' << std::flush;
    for (std::string line; std::getline(std::cin, line);) {
      OPWELD_TRY(const double seconds, timed_run(subject.executable, tensors, outputs, options));
      std::cout << fmt::format("{:.9f}", seconds) << '\n' << std::flush;
    }
    return {};
  }
};

}  // namespace

Status check_arguments(const BenchArguments& arguments) {
  if (arguments.paced && arguments.compare) {
    return usage_error("--paced is of one level: leave out --compare, and say --fusion instead");
  }
  if (!arguments.paced && !arguments.output.empty()) {
    return usage_error("--output is for --paced; 'opweld run' keeps outputs, too");
  }
  if (arguments.cache && arguments.model.no_cache) {
    return usage_error("--cache and --no-cache exclude each other");
  }
  if (arguments.trace.empty()) return {};
  if (arguments.paced) return usage_error("--trace and --paced exclude each other");
  if (arguments.compare) {
    return usage_error("--trace is of one run: leave out --compare, and say --fusion instead");
  }
  return {};
}

Status bench_runs(const BenchArguments& arguments, std::vector<BenchSubject> subjects,
                  std::vector<Tensor> tensors) {
  return Bench(arguments)(std::move(subjects), std::move(tensors));
}

}  // namespace opweld::cli
