#include "compile.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "codegen/cpu/kernel.h"
#include "fusion/planner.h"
#include "graph/text.h"
#include "ops/builder.h"
#include "report/account.h"
#include "report/usual_sizes.h"
#include "rewrite/pipeline.h"
#include "support/log.h"
#include "target/target.h"
#include "tile/lower.h"
#include "tile/pressure.h"

namespace opweld {

namespace {

class Compiler {
 public:
  explicit Compiler(const CompileOptions& options) : options_(options) {}

  Expected<Compiled> run(Graph graph) {
    OPWELD_TRY(target_, find_target(options_.target));
    threads_ = options_.threads > 0 ? options_.threads : target_.cores;

    // What the importer or the user built must be well formed.
    OPWELD_CHECK(pass("verify", [&]() { return verify(graph); }));
    dump("verify", [&]() { return to_text(graph); });

    // Simplify the graph, and find the library's operators in whatever spelling they came.
    RewriteOptions rewriting;
    rewriting.strict = options_.strict;
    rewriting.raise = options_.level != FusionLevel::None;
    rewriting.merge = options_.level == FusionLevel::Auto;
    for (const RewritePass& rewrite : rewrite_passes(rewriting)) {
      OPWELD_CHECK(pass(rewrite.name, [&]() { return rewrite.run(graph); }));
      if (options_.verify_passes) OPWELD_CHECK(verify(graph));
      dump(rewrite.name, [&]() { return to_text(graph); });
    }

    // Decide which neighbours share a kernel.
    FusionPlan plan;
    OPWELD_CHECK(pass("plan", [&]() { return make_plan(graph, plan); }));
    dump("plan", [&]() { return to_text(plan); });
    log_plan(graph, plan);

    // Turn each group into a tile program.
    std::vector<ExecutableKernel> kernels;
    OPWELD_CHECK(pass("tile", [&]() { return lower_kernels(plan, kernels); }));
    dump("tile", [&]() { return programs_text(kernels); });

    // Machine code; equal programs are compiled once.
    OPWELD_CHECK(pass("codegen", [&]() { return generate(kernels); }));
    dump("codegen", [&]() { return assembly_text(kernels); });

    // Pack the weights, and decide where values live.
    Expected<Executable> executable = fail("not built");
    OPWELD_CHECK(pass("link", [&]() -> Status {
      executable =
          Executable::create(std::move(graph), std::move(plan), std::move(kernels), threads_,
                             options_.keep_constants ? Executable::GraphConstants::Keep
                                                     : Executable::GraphConstants::Release);
      return executable ? Status() : tl::unexpected(executable.error());
    }));
    Compiled compiled{std::move(*executable), std::move(times_), std::move(tunable_),
                      std::move(notes_)};
    log_tuning(compiled);
    return compiled;
  }

 private:
  using Clock = std::chrono::steady_clock;

  template <typename Body>
  Status pass(std::string_view name, const Body& body) {
    if (options_.progress) options_.progress(name);
    const Clock::time_point start = Clock::now();
    Status status = body();
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    times_.push_back({std::string(name), elapsed.count()});
    return status;
  }

  template <typename Text>
  void dump(std::string_view name, const Text& text) {
    if (options_.dump && options_.dump_after == name) options_.dump(name, text());
  }

  tile::LowerOptions lower_options() const { return {&target_, options_.strict}; }

  Status make_plan(const Graph& graph, FusionPlan& plan) {
    PlanOptions planning;
    planning.level = options_.level;
    planning.target = &target_;
    planning.oracle = [this](const Graph& group, KernelKind kind) -> Expected<Pressure> {
      OPWELD_TRY(const auto lowered, tile::lower(group, kind, lower_options(), "group"));
      return tile::estimate_pressure(lowered, target_);
    };
    OPWELD_TRY(plan, plan_fusion(graph, planning));
    return {};
  }

  // What was decided, as far as the environment asks for it.
  void log_plan(const Graph& graph, const FusionPlan& plan) const {
    const Log log = Log::from_environment();
    if (!log.enabled(LogLevel::Info)) return;
    const Bindings sizes = usual_sizes(graph);
    std::vector<std::string> figures;
    for (const auto& [name, size] : sizes) figures.push_back(fmt::format(", {} = {}", name, size));
    log.line(LogLevel::Info, fmt::format("AutoFusion: graph '{}' at level {}{}", graph.name(),
                                         to_string(plan.level), fmt::join(figures, "")));
    if (const auto kernels = fusion_log(plan, sizes, false)) {
      for (const std::string& line : *kernels) log.line(LogLevel::Info, line);
    } else {
      log.line(LogLevel::Info, "AutoFusion: no figures: " + kernels.error().message);
    }
    if (!log.enabled(LogLevel::Debug)) return;
    for (const std::string& line : kept_edges_log(plan)) log.line(LogLevel::Debug, line);
  }

  static void log_tuning(const Compiled& compiled) {
    const Log log = Log::from_environment();
    if (!log.enabled(LogLevel::Info)) return;
    for (const std::string& line : compiled.tuning_log()) log.line(LogLevel::Info, line);
  }

  // With the block sizes that were measured for kernels like this one.
  Expected<tile::LoweredKernel> lower(const Kernel& kernel, std::size_t index) {
    const Graph group = extract_group(kernel);
    // Named by kind, so that kernels equal but for their place in the model are equal.
    const std::string name(to_string(kernel.kind));
    auto lowered = tile::lower(group, kernel.kind, lower_options(), name);
    if (!lowered || lowered->choices.candidates.empty()) return lowered;
    TunableKernel tunable;
    tunable.kernel = static_cast<int>(index);
    tunable.name = kernel_class(kernel, lowered->choices, threads_, options_.strict);
    tunable.choices = lowered->choices;
    if (const TunedChoice* const tuned = tuned_choice(tunable)) {
      tunable.used = *tuned;
      tile::LowerOptions lowering = lower_options();
      lowering.blocking = tuned->blocking;
      lowered = tile::lower(group, kernel.kind, lowering, name);
    }
    tunable_.push_back(std::move(tunable));
    return lowered;
  }

  const TunedChoice* tuned_choice(const TunableKernel& kernel) const {
    if (options_.tuning == nullptr) return nullptr;
    const auto found = options_.tuning->find(kernel.name);
    if (found == options_.tuning->end()) return nullptr;
    const auto& offered = kernel.choices.candidates;
    const bool is_offered =
        std::find(offered.begin(), offered.end(), found->second.blocking) != offered.end();
    return is_offered ? &found->second : nullptr;
  }

  Status lower_kernels(FusionPlan& plan, std::vector<ExecutableKernel>& kernels) {
    for (Kernel& kernel : plan.kernels) {
      ExecutableKernel executable;
      if (kernel.kind != KernelKind::Extern) {
        auto lowered = lower(kernel, kernels.size());
        if (lowered) {
          executable.program = std::move(lowered->program);
          executable.constants = std::move(lowered->constants);
        } else {
          // Groups of several nodes were asked about when they were formed.
          if (kernel.nodes.size() > 1) {
            return fail("{}: {}", kernel.label, lowered.error().message);
          }
          executable.why_call = lowered.error().message;
          kernel.kind = KernelKind::Extern;
        }
      }
      if (!executable.why_call.empty()) {
        notes_.push_back(fmt::format("{} is run by a call: {}",
                                     kernel.nodes.front()->display_name(), executable.why_call));
      }
      kernels.push_back(std::move(executable));
    }
    return {};
  }

  Status generate(std::vector<ExecutableKernel>& kernels) {
    cpu::KernelCompiler::Options options;
    options.threads = threads_;
    OPWELD_TRY(cpu::KernelCompiler compiler, cpu::KernelCompiler::create(target_, options));
    std::vector<const tile::TileProgram*> programs;
    std::vector<ExecutableKernel*> owners;
    for (ExecutableKernel& kernel : kernels) {
      if (kernel.program.params.empty()) continue;
      programs.push_back(&kernel.program);
      owners.push_back(&kernel);
    }
    OPWELD_TRY(const auto compiled, compiler.compile(programs));
    for (std::size_t i = 0; i < owners.size(); ++i) owners[i]->code = compiled[i];
    return {};
  }

  static std::string programs_text(const std::vector<ExecutableKernel>& kernels) {
    std::string text;
    for (const ExecutableKernel& kernel : kernels) {
      if (!kernel.program.params.empty()) text += to_text(kernel.program) + "\n";
    }
    return text;
  }

  std::string assembly_text(const std::vector<ExecutableKernel>& kernels) const {
    auto compiler = cpu::KernelCompiler::create(target_, {});
    if (!compiler) return compiler.error().message;
    std::string text;
    for (const ExecutableKernel& kernel : kernels) {
      if (kernel.program.params.empty()) continue;
      const auto assembly = compiler->assembly(kernel.program);
      text += assembly ? *assembly : assembly.error().message;
    }
    return text;
  }

  const CompileOptions& options_;
  Target target_;
  int threads_ = 1;
  std::vector<PassTime> times_;
  std::vector<TunableKernel> tunable_;
  std::vector<std::string> notes_;
};

}  // namespace

double Compiled::seconds() const {
  double total = 0;
  for (const PassTime& time : times) total += time.seconds;
  return total;
}

std::vector<std::string> Compiled::tuning_log() const {
  std::vector<std::string> lines;
  for (const TunableKernel& tunable : tunable) {
    const auto& [blocking, gain, sizes] = tunable.used;
    if (blocking.is_default()) continue;
    const Kernel& kernel = executable.plan().kernels[static_cast<std::size_t>(tunable.kernel)];
    lines.push_back(fmt::format("Tuning: {} ({}): {}, {:.1f} % faster than the default{}",
                                kernel.name, kernel.label, to_text(blocking), gain * 100,
                                sizes.empty() ? "" : " at " + sizes));
  }
  return lines;
}

std::vector<std::string_view> pass_names() {
  static const std::vector<RewritePass> kRewrites = rewrite_passes({});
  std::vector<std::string_view> names = {"verify"};
  for (const RewritePass& rewrite : kRewrites) names.emplace_back(rewrite.name);
  names.insert(names.end(), {"plan", "tile", "codegen"});
  return names;
}

Expected<Compiled> compile(Graph graph, const CompileOptions& options) {
  if (!options.dump_after.empty()) {
    const auto names = pass_names();
    if (std::find(names.begin(), names.end(), options.dump_after) == names.end()) {
      return usage_error("there is no pass '{}'; the passes are {}", options.dump_after,
                         fmt::join(names, ", "));
    }
  }
  return Compiler(options).run(std::move(graph));
}

}  // namespace opweld
