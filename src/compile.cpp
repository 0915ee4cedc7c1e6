#include "compile.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>

#include "codegen/cpu/kernel.h"
#include "fusion/plan_record.h"
#include "fusion/plan_versions.h"
#include "fusion/planner.h"
#include "graph/text.h"
#include "ops/builder.h"
#include "ops/register.h"
#include "report/account.h"
#include "report/usual_sizes.h"
#include "rewrite/in_place.h"
#include "rewrite/pipeline.h"
#include "support/log.h"
#include "target/target.h"
#include "tile/estimate.h"
#include "tile/executable_kernel.h"
#include "tile/lower.h"
#include "tile/lowering_memory.h"

namespace opweld {

namespace {

class Compiler {
 public:
  explicit Compiler(const CompileOptions& options) : options_(options) {}

  // Up to where all targets are alike.
  Expected<Planned> plan(Graph graph) {
    OPWELD_TRY(target_, find_target(options_.target));
    threads_ = options_.threads > 0 ? options_.threads : target_.cores;
    scheduled_ = on_threads(target_, threads_);

    // What the importer or the user built must be well formed.
    OPWELD_CHECK(pass("verify", [&]() { return verify(graph); }));
    dump("verify", [&]() { return to_text(graph); });

    // Simplify the graph, and find the library's operators in whatever spelling they came.
    if (options_.history) history_.emplace(graph);
    RewriteOptions rewriting;
    rewriting.strict = options_.strict;
    rewriting.raise = options_.level != FusionLevel::None;
    rewriting.merge = options_.level != FusionLevel::None;
    rewriting.notes = &notes_;
    for (const RewritePass& rewrite : rewrite_passes(rewriting)) {
      OPWELD_CHECK(pass(rewrite.name, [&]() { return rewrite.run(graph); }));
      if (options_.verify_passes) OPWELD_CHECK(verify(graph));
      if (history_) history_->record(rewrite.name, graph);
      dump(rewrite.name, [&]() { return to_text(graph); });
    }

    // See which outputs take over the memory of an input, as declared.
    OPWELD_CHECK(pass("in-place", [&]() { return mark_in_place(graph); }));
    dump("in-place", [&]() { return to_text(graph); });
    for (std::string& copied : copied_caches(graph)) notes_.push_back(std::move(copied));

    // Decide which neighbours share a kernel; if what pays depends on sizes that only a run knows,
    // once for each band of them.
    std::vector<PlanVersion> versions;
    OPWELD_CHECK(pass("plan", [&]() { return make_plans(graph, versions); }));
    dump("plan", [&]() {
      return text_of(versions, [](const PlanVersion& version) { return to_text(version.plan); });
    });

    // Turn each group into a tile program.
    OPWELD_CHECK(pass("tile", [&]() { return lower_kernels(versions); }));
    dump("tile", [&]() { return text_of(versions, programs_text); });
    Planned planned{
        std::move(graph),  std::move(versions), target_, threads_, {}, std::move(tunable_),
        std::move(notes_), std::move(history_)};
    planned.times = times_;
    log_decisions(planned);
    return planned;
  }

  Expected<Compiled> run(Graph graph) {
    OPWELD_TRY(const Target asked, find_target(options_.target));
    OPWELD_CHECK(check_is_here(asked));
    OPWELD_TRY(Planned planned, plan(std::move(graph)));

    // Machine code; equal programs are compiled once.
    std::vector<PlanVersion>& versions = planned.versions;
    OPWELD_CHECK(pass("codegen", [&]() { return generate(versions); }));
    dump("codegen", [&]() {
      return text_of(versions, [&](const PlanVersion& version) { return assembly_text(version); });
    });

    // Pack the weights, and decide where values live.
    Expected<Executable> executable = fail("not built");
    OPWELD_CHECK(pass("link", [&]() -> Status {
      executable =
          Executable::create(std::move(planned.graph), std::move(versions), threads_,
                             options_.keep_constants ? Executable::GraphConstants::Keep
                                                     : Executable::GraphConstants::Release);
      return executable ? Status() : tl::unexpected(executable.error());
    }));
    return Compiled{std::move(*executable),     std::move(times_),
                    std::move(planned.tunable), std::move(planned.notes),
                    std::move(planned.history), found_,
                    std::move(features_)};
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

  // Blocks are cut for the threads that there are: they change no bit of a result. What shares a
  // kernel is decided for the target as a whole (make_plans), since a chain rounds in other places
  // than the kernels that it replaces.
  tile::LowerOptions lower_options() {
    tile::LowerOptions lowering = {&scheduled_, options_.strict};
    lowering.memory = &lowering_memory_;
    return lowering;
  }

  // Of each version, under what it asks of sizes.
  template <typename Text>
  static std::string text_of(std::span<const PlanVersion> versions, const Text& text) {
    std::string result;
    for (const PlanVersion& version : versions) {
      if (versions.size() > 1) result += conditions_text(version.plan);
      result += text(version);
    }
    return result;
  }

  static std::string conditions_text(const FusionPlan& plan) {
    if (plan.conditions.empty()) return "for any other sizes:\n";
    std::vector<std::string> parts;
    for (const SizeCondition& each : plan.conditions) {
      parts.push_back(fmt::format("{} >= {}", each.size, each.least));
    }
    return fmt::format("where {}:\n", fmt::join(parts, " and "));
  }

  Status make_plans(const Graph& graph, std::vector<PlanVersion>& versions) {
    PlanOptions planning;
    planning.level = options_.level;
    planning.target = &target_;
    planning.without = options_.without;
    planning.rules = options_.rules;
    planning.attention_chains = options_.attention_chains;
    planning.chains_of_any_rows = options_.chains_of_any_rows;
    tile::LowerOptions asking = {&target_, options_.strict};
    asking.draft = true;
    asking.memory = &lowering_memory_;
    planning.oracle = remembered([this, asking](const Graph& group, KernelKind kind) {
      return tile::lower(group, kind, asking, "group").map([this](tile::LoweredKernel kernel) {
        return tile::estimate(std::move(kernel), target_);
      });
    });
    OPWELD_TRY(auto plans, kept_or_new_plans(graph, planning));
    for (FusionPlan& plan : plans) versions.push_back({std::move(plan), {}});
    return {};
  }

  Expected<std::vector<FusionPlan>> kept_or_new_plans(const Graph& graph,
                                                      const PlanOptions& planning) {
    if (options_.kept == nullptr) return plan_versions(graph, planning);
    const std::string key = planning_key(graph, planning, options_.strict ? "strict" : "default");
    if (const auto record = options_.kept->find(key)) {
      if (auto plans = parse_plan_record(graph, *record)) {
        found_.plan = true;
        return std::move(*plans);
      }
    }
    auto plans = plan_versions(graph, planning);
    if (plans) options_.kept->store(key, plan_record(graph, *plans));
    return plans;
  }

  // What was decided, as far as the environment asks for it.
  static void log_decisions(const Planned& planned) {
    const Log log = Log::from_environment();
    if (!log.enabled(LogLevel::Info)) return;
    const Graph& graph = planned.graph;
    const Bindings sizes = usual_sizes(graph);
    const std::size_t version = planned.version_for(sizes);
    const FusionPlan& plan = planned.versions[version].plan;
    std::vector<std::string> figures;
    for (const auto& [name, size] : sizes) figures.push_back(fmt::format(", {} = {}", name, size));
    log.line(LogLevel::Info, fmt::format("AutoFusion: graph '{}' at level {}{}", graph.name(),
                                         to_string(plan.level), fmt::join(figures, "")));
    const auto say = [&](LogLevel level, const Expected<std::vector<std::string>>& lines) {
      if (!lines) return log.line(level, "AutoFusion: no figures: " + lines.error().message);
      for (const std::string& line : *lines) log.line(level, line);
    };
    const auto kernels = fusion_log(plan, sizes, false);
    say(LogLevel::Info, kernels);
    if (kernels && kernels->empty()) log.line(LogLevel::Info, nothing_fused_line(plan));
    if (log.enabled(LogLevel::Debug)) say(LogLevel::Debug, edge_log(plan, sizes));
    for (const std::string& line : tuning_lines(plan, version, planned.tunable)) {
      log.line(LogLevel::Info, line);
    }
    for (const std::string& note : planned.notes) {
      log.line(LogLevel::Info, "AutoFusion: " + note);
    }
  }

  // With the block sizes that were measured for kernels like this one.
  Expected<tile::LoweredKernel> lower(const Kernel& kernel, std::size_t version,
                                      std::size_t index) {
    const Graph group = extract_group(kernel);
    // Named by kind, so that kernels equal but for their place in the model are equal.
    const std::string name(to_string(kernel.kind));
    auto lowered = tile::lower(group, kernel.kind, lower_options(), name);
    if (!lowered || lowered->choices.candidates.empty()) return lowered;
    TunableKernel tunable;
    tunable.version = version;
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

  Status lower_kernels(std::vector<PlanVersion>& versions) {
    for (std::size_t i = 0; i < versions.size(); ++i) OPWELD_CHECK(lower_kernels(versions[i], i));
    lowered_.clear();  // which would hold the weights
    // Kernels that versions share have the same to say.
    std::ranges::sort(notes_);
    const auto repeated = std::ranges::unique(notes_);
    notes_.erase(repeated.begin(), repeated.end());
    return {};
  }

  // A kernel by what it is made of, whatever it is called in its plan.
  using KernelParts = std::tuple<KernelKind, std::vector<Node*>, std::vector<Value*>>;

  // What became of a kernel that an earlier version has as well.
  struct LoweredBefore {
    KernelKind kind;
    ExecutableKernel kernel;
    std::optional<TunableKernel> tunable;
  };

  Status lower_kernels(PlanVersion& version, std::size_t index) {
    for (Kernel& kernel : version.plan.kernels) {
      const KernelParts parts{kernel.kind, kernel.nodes, kernel.outputs};
      if (const auto before = lowered_.find(parts); before != lowered_.end()) {
        kernel.kind = before->second.kind;
        if (before->second.tunable) {
          tunable_.push_back(*before->second.tunable);
          tunable_.back().version = index;
          tunable_.back().kernel = static_cast<int>(version.kernels.size());
        }
        version.kernels.push_back(before->second.kernel);
        continue;
      }
      const std::size_t tunable_before = tunable_.size();
      ExecutableKernel executable;
      if (kernel.kind == KernelKind::Extern) {
        executable.why_call = what_to_declare(op_def(*kernel.nodes.front()));
      } else {
        auto lowered = lower(kernel, index, version.kernels.size());
        if (lowered) {
          executable = tile::executable_kernel(std::move(*lowered));
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
      const bool is_tunable = tunable_.size() > tunable_before;
      lowered_.emplace(parts,
                       LoweredBefore{kernel.kind, executable,
                                     is_tunable ? std::optional(tunable_.back()) : std::nullopt});
      version.kernels.push_back(std::move(executable));
    }
    return {};
  }

  Status generate(std::vector<PlanVersion>& versions) {
    cpu::KernelCompiler::Options options;
    options.threads = threads_;
    options.kept = options_.kept.get();
    options.keep_objects = options_.keep_objects;
    OPWELD_TRY(cpu::KernelCompiler compiler, cpu::KernelCompiler::create(target_, options));
    std::vector<const tile::TileProgram*> programs;
    std::vector<ExecutableKernel*> owners;
    for (PlanVersion& version : versions) {
      for (ExecutableKernel& kernel : version.kernels) {
        if (kernel.program == nullptr) continue;
        programs.push_back(kernel.program.get());
        owners.push_back(&kernel);
      }
    }
    OPWELD_TRY(const auto compiled, compiler.compile(programs));
    for (std::size_t i = 0; i < owners.size(); ++i) owners[i]->code = compiled[i];
    features_ = compiler.features();
    found_.functions = compiler.made().found;
    found_.all_functions = compiler.made().functions;
    return {};
  }

  static std::string programs_text(const PlanVersion& version) {
    std::string text;
    for (const ExecutableKernel& kernel : version.kernels) {
      if (kernel.program != nullptr) text += to_text(*kernel.program) + "\n";
    }
    return text;
  }

  std::string assembly_text(const PlanVersion& version) const {
    auto compiler = cpu::KernelCompiler::create(target_, {});
    if (!compiler) return compiler.error().message;
    std::string text;
    for (const ExecutableKernel& kernel : version.kernels) {
      if (kernel.program == nullptr) continue;
      const auto assembly = compiler->assembly(*kernel.program);
      text += assembly ? *assembly : assembly.error().message;
    }
    return text;
  }

  const CompileOptions& options_;
  Target target_;
  Target scheduled_;  // with as many cores as there are threads to run on
  int threads_ = 1;
  tile::LoweringMemory lowering_memory_;
  std::vector<PassTime> times_;
  std::vector<TunableKernel> tunable_;
  std::map<KernelParts, LoweredBefore> lowered_;
  std::vector<std::string> notes_;
  std::optional<History> history_;
  Compiled::Found found_;
  std::vector<std::string> features_;
};

}  // namespace

double Compiled::seconds() const {
  double total = 0;
  for (const PassTime& time : times) total += time.seconds;
  return total;
}

std::vector<std::string> Compiled::tuning_log(std::size_t version) const {
  return tuning_lines(executable.versions()[version].plan, version, tunable);
}

std::size_t Planned::version_for(const Bindings& bindings) const {
  return serving_version(versions, bindings);
}

std::vector<std::string> tuning_lines(const FusionPlan& plan, std::size_t version,
                                      std::span<const TunableKernel> tunable) {
  std::vector<std::string> lines;
  for (const TunableKernel& each : tunable) {
    const auto& [blocking, gain, sizes] = each.used;
    if (blocking.is_default() || each.version != version) continue;
    const Kernel& kernel = plan.kernels[static_cast<std::size_t>(each.kernel)];
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
  names.insert(names.end(), {"in-place", "plan", "tile", "codegen"});
  return names;
}

namespace {

Status check_pass_name(const std::string& asked) {
  const auto names = pass_names();
  if (asked.empty() || std::find(names.begin(), names.end(), asked) != names.end()) return {};
  return usage_error("there is no pass '{}'; the passes are {}", asked, fmt::join(names, ", "));
}

}  // namespace

Expected<Planned> plan_graph(Graph graph, const CompileOptions& options) {
  OPWELD_CHECK(check_pass_name(options.dump_after));
  return Compiler(options).plan(std::move(graph));
}

Expected<Compiled> compile(Graph graph, const CompileOptions& options) {
  OPWELD_CHECK(check_pass_name(options.dump_after));
  return Compiler(options).run(std::move(graph));
}

}  // namespace opweld
