// opweld explain of a model that is not compiled yet.
#include <nlohmann/json.hpp>

#include "both/explanation.h"
#include "compiler/predicted.h"
#include "compiler/session.h"
#include "compiler/subcommands.h"
#include "ops/reference.h"
#include "report/account.h"
#include "report/layers.h"
#include "report/why.h"

namespace opweld::cli {

namespace {

struct ExplainCommand : ExplainArguments {
  Status operator()() const {
    OPWELD_TRY(const Target target, find_target(model.target));
    if (needs_code()) OPWELD_CHECK(check_is_here(target));
    OPWELD_TRY(const Graph graph, load_model(model));
    OPWELD_TRY(const FusionLevel level, parse_level(model.fusion));
    OPWELD_TRY(const Bindings sizes, choose_sizes(graph, model.dims));
    CompileOptions compiling;
    compiling.history = true;
    if (!needs_code()) {
      OPWELD_TRY(const Planned planned, plan_model(graph, model, level, compiling));
      const std::size_t version = planned.version_for(sizes);
      const auto kernels = static_cast<std::int64_t>(planned.versions[version].kernels.size());
      return tell(graph, level, sizes, target,
                  {planned.graph, planned.versions[version], *planned.history,
                   LaunchAccount{kernels, 0, {}},
                   tuning_lines(planned.versions[version].plan, version, planned.tunable),
                   planned.notes, planned.threads, std::nullopt, planned.times});
    }
    OPWELD_TRY(Compiled compiled, compile_model(graph, model, level, compiling));
    const Executable& executable = compiled.executable;
    const std::size_t version = executable.version_for(sizes);
    OPWELD_TRY(const LaunchAccount launches, executable.launches(sizes, model.single_launch));
    std::optional<KernelTimes> times;
    if (measure) {
      OPWELD_TRY(const std::vector<Tensor> inputs, find_inputs(graph, model, {}));
      OPWELD_TRY(times, kernel_times(compiled, model, inputs));
    }
    return tell(graph, level, sizes, target,
                {executable.graph(), executable.versions()[version], *compiled.history, launches,
                 compiled.tuning_log(version), compiled.notes, executable.threads(), times,
                 compiled.times});
  }

 private:
  // What there is to tell, of a plan alone or of one that code was made for.
  struct Subject {
    const Graph& graph;
    const PlanVersion& version;
    const History& history;
    LaunchAccount launches;
    std::vector<std::string> tuning;
    std::vector<std::string> notes;
    int threads = 1;
    std::optional<KernelTimes> times;
    std::vector<PassTime> passes;
  };

  // What only linked code can tell: times, barriers, assembly.
  [[nodiscard]] bool needs_code() const {
    return measure || model.single_launch || model.tune || model.dump_after == "codegen";
  }

  Status tell(const Graph& graph, FusionLevel level, const Bindings& sizes, const Target& target,
              const Subject& subject) const {
    const FusionPlan& plan = subject.version.plan;
    const ModelNames names(subject.graph, &subject.history);
    const PlannedModel planned{subject.graph, plan, sizes, names};
    OPWELD_CHECK(check_requirements(planned, model));
    if (!why.empty()) return answer(*this, planned);
    if (model.json || !file.empty()) {
      OPWELD_TRY(const std::string account,
                 explain_json(plan, sizes, subject.launches, subject.tuning, &names));
      nlohmann::ordered_json document = {{"target", target_json(target)}};
      document.update(nlohmann::ordered_json::parse(account));
      OPWELD_TRY(const auto predicted,
                 predict_kernels(subject.version, target, sizes, subject.threads));
      document["predicted"] = predictions_json(plan, predicted);
      if (subject.times) document["times"] = kernel_times_json(plan, *subject.times);
      if (passes) {
        document["nodes"] = subject.graph.nodes().size();
        for (const PassTime& each : subject.passes) document["passes"][each.pass] = each.seconds;
      }
      return write_account(*this, document.dump(2));
    }
    if (target.planned_only) fmt::print("{}.\n", planned_note(target));
    OPWELD_CHECK(print_kernels(plan, sizes, subject.launches));
    for (const std::string& line : conditions_log(plan, sizes)) fmt::print("{}\n", line);
    if (const std::string text = versions_log(plan); !text.empty()) fmt::print("{}\n", text);
    if (level == FusionLevel::Auto) fmt::print("{}\n", search_log(plan));
    OPWELD_CHECK(print_log(plan, sizes, all_edges));
    for (const std::string& line : subject.tuning) fmt::print("{}\n", line);
    for (const std::string& note : subject.notes) fmt::print("note: {}\n", note);
    if (passes) print_passes(subject);
    if (subject.times) print_kernel_times(plan, *subject.times);
    if (target.planned_only) {
      OPWELD_TRY(const auto predicted,
                 predict_kernels(subject.version, target, sizes, subject.threads));
      print_predictions(plan, predicted);
    }
    return print_levels(graph, sizes);
  }

  static void print_passes(const Subject& subject) {
    fmt::print("\nThe compiler's passes; {} nodes were planned:\n", subject.graph.nodes().size());
    for (const PassTime& each : subject.passes) {
      fmt::print("  {:<18} {:>9.1f} ms\n", each.pass, each.seconds * 1e3);
    }
  }

  static std::string planned_note(const Target& target) {
    return fmt::format(
        "A plan for {} ({}), which is not here: nothing was compiled or run, and times are what "
        "the "
        "kernel model expects",
        target.name, target.model);
  }

  static nlohmann::ordered_json target_json(const Target& target) {
    nlohmann::ordered_json json = {
        {"name", target.name}, {"model", target.model}, {"here", !target.planned_only}};
    if (target.planned_only) json["note"] = planned_note(target);
    return json;
  }

  // Kernels and bytes of each layer at each level; of layers that are equal, those of one.
  Status print_levels(const Graph& graph, const Bindings& sizes) const {
    constexpr std::pair<const char*, FusionLevel> kLevels[] = {
        {"none", FusionLevel::None}, {"ops", FusionLevel::Ops}, {"auto", FusionLevel::Auto}};
    fmt::print("\n{:<48} {:>6} {:>8} {:>12} {:>12}\n", "layer", "fusion", "kernels", "read",
               "written");
    for (const auto& [name, level] : kLevels) {
      // The bytes of a level do not depend on block sizes.
      ModelOptions untuned = model;
      untuned.tune = false;
      untuned.dump_after.clear();
      OPWELD_TRY(const Planned planned, plan_model(graph, untuned, level));
      const FusionPlan& plan = planned.versions[planned.version_for(sizes)].plan;
      OPWELD_TRY(const auto layers, equal_layers(plan, sizes));
      OPWELD_TRY(const Traffic total, total_traffic(plan, sizes));
      for (const EqualLayers& each : layers) print_row(to_string(each), name, each.traffic);
      print_row("total", name, total);
    }
    return {};
  }

  static void print_row(const std::string& layer, const char* level, const Traffic& traffic) {
    fmt::print("{:<48} {:>6} {:>8} {:>12} {:>12}\n", layer, level, traffic.kernels,
               human_bytes(static_cast<double>(traffic.read_bytes)),
               human_bytes(static_cast<double>(traffic.written_bytes)));
  }
};

}  // namespace

Status explain_model(const ExplainArguments& arguments) {
  return ExplainCommand{arguments}();
}

}  // namespace opweld::cli
