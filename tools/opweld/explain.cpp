// opweld explain: the account of what was fused.
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "compiled_file.h"
#include "ops/reference.h"
#include "predicted.h"
#include "report/account.h"
#include "report/layers.h"
#include "report/why.h"
#include "session.h"
#include "stored_account.h"

namespace opweld::cli {

namespace {

struct ExplainCommand {
  ModelOptions model;
  std::string file;
  std::vector<std::string> why;  // one node or two
  bool all_edges = false;
  bool measure = false;
  bool passes = false;

  Status operator()() const {
    if (is_compiled_file(model.model)) return tell_compiled_file();
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
  // The account that was written when the file was: it is of the sizes that compile was given.
  Status tell_compiled_file() const {
    if (!why.empty() || all_edges || measure || passes || !model.dims.empty()) {
      return usage_error(
          "{}: of a compiled model explain knows what was written with it, and takes --json and "
          "--explain alone; give the others to explain with the model",
          model.model);
    }
    OPWELD_TRY(const aot::LoadedModel loaded, load_compiled_file(model));
    if (loaded.account.empty()) {
      return fail("{}: it was compiled with --no-account", model.model);
    }
    if (model.json || !file.empty()) return write(loaded.account);
    return print_stored_account(loaded.account);
  }

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
    if (!why.empty()) return answer(planned);
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
      return write(document.dump(2));
    }
    if (target.planned_only) fmt::print("{}.\n", planned_note(target));
    OPWELD_CHECK(print_kernels(plan, sizes, subject.launches));
    for (const std::string& line : conditions_log(plan, sizes)) fmt::print("{}\n", line);
    if (const std::string text = versions_log(plan); !text.empty()) fmt::print("{}\n", text);
    if (level == FusionLevel::Auto) fmt::print("{}\n", search_log(plan));
    OPWELD_CHECK(print_log(plan, sizes));
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

  Status write(const std::string& json) const {
    if (!file.empty()) {
      std::ofstream out(file);
      out << json << "\n";
      if (!out.flush()) return fail("cannot write '{}'", file);
    }
    if (model.json) fmt::print("{}\n", json);
    return {};
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

  Status answer(const PlannedModel& planned) const {
    OPWELD_TRY(const Answer found, why.size() == 1 ? why_there(planned, why[0])
                                                   : why_together(planned, why[0], why[1]));
    if (model.json) {
      const nlohmann::ordered_json json = {{"happened", found.happened},
                                           {"rule", found.rule},
                                           {"change", found.change},
                                           {"code", found.code}};
      fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
      return {};
    }
    fmt::print("What happened:   {}\nThe rule:        {}\nWhat to change:  {}\n", found.happened,
               found.rule, found.change);
    return {};
  }

  // In a single launch with the stretch that each kernel is part of.
  static Status print_kernels(const FusionPlan& plan, const Bindings& sizes,
                              const LaunchAccount& launches) {
    // Before anything is printed: what cannot be counted is told by its name.
    if (const auto counted = total_traffic(plan, sizes); !counted) {
      return tl::unexpected(counted.error());
    }
    fmt::print("Kernels, in order{}:\n",
               launches.stretch_of.empty() ? "" : ", with the number of barriers before each");
    for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
      const Kernel& kernel = plan.kernels[i];
      if (!launches.stretch_of.empty()) fmt::print("  {:>3}", launches.stretch_of[i]);
      OPWELD_TRY(const std::int64_t read, FusionPlan::bytes_read(kernel).evaluate(sizes));
      OPWELD_TRY(const std::int64_t written, FusionPlan::bytes_written(kernel).evaluate(sizes));
      fmt::print("  {:<16} {:<10} {:>10} read {:>10} written  {}{}\n", kernel.name,
                 to_string(kernel.kind), human_bytes(static_cast<double>(read)),
                 human_bytes(static_cast<double>(written)), kernel.label,
                 kernel.scope.empty() ? "" : fmt::format("  [{}]", kernel.scope));
    }
    fmt::print("{} kernels, {} launch{}, {} barriers inside\n", plan.kernels.size(),
               launches.launches, launches.launches == 1 ? "" : "es", launches.barriers);
    return {};
  }

  Status print_log(const FusionPlan& plan, const Bindings& sizes) const {
    OPWELD_TRY(std::vector<std::string> lines, fusion_log(plan, sizes, false));
    if (lines.empty()) lines.push_back(nothing_fused_line(plan));
    if (all_edges) {
      OPWELD_TRY(const std::vector<std::string> edges, edge_log(plan, sizes));
      lines.insert(lines.end(), edges.begin(), edges.end());
    }
    fmt::print("\n");
    for (const std::string& line : lines) fmt::print("{}\n", line);
    return {};
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

Command add_explain(CLI::App& app) {
  auto command = std::make_shared<ExplainCommand>();
  add_model_options(app, command->model);
  app.add_option("--explain", command->file,
                 "Write the account as JSON to this file: kernels, and a verdict on every edge");
  app.add_option("--why", command->why,
                 "NODE, or two of them: why it is in the kernel it is in, or why the two share one "
                 "or do not, and what to change. By its name in the model, or what that alone "
                 "begins with")
      ->expected(1, 2);
  app.add_flag("--all-edges", command->all_edges,
               "One line for every edge, fused or not, with its reason");
  app.add_flag("--measure", command->measure,
               "Run the model on random inputs of these sizes, and hold the time of each kernel "
               "against what the cost model expects of it on this machine");
  app.add_flag("--passes", command->passes, "How long each pass of the compiler took");
  return [command] { return (*command)(); };
}

}  // namespace opweld::cli
