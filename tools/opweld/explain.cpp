// opweld explain: the account of what was fused.
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "ops/reference.h"
#include "predicted.h"
#include "report/account.h"
#include "report/layers.h"
#include "report/why.h"
#include "session.h"

namespace opweld::cli {

namespace {

struct ExplainCommand {
  ModelOptions model;
  std::string file;
  std::vector<std::string> why;  // one node or two
  bool all_edges = false;
  bool measure = false;

  Status operator()() const {
    OPWELD_TRY(const Graph graph, load_model(model));
    OPWELD_TRY(const FusionLevel level, parse_level(model.fusion));
    OPWELD_TRY(const Bindings sizes, choose_sizes(graph, model.dims));
    CompileOptions compiling;
    compiling.history = true;
    OPWELD_TRY(Compiled compiled, compile_model(graph, model, level, compiling));
    OPWELD_CHECK(check_requirements(compiled, model, sizes));
    const std::size_t version = compiled.executable.version_for(sizes);
    const FusionPlan& plan = compiled.executable.versions()[version].plan;
    const ModelNames names(compiled.executable.graph(), &*compiled.history);
    if (!why.empty()) return answer({compiled.executable.graph(), plan, sizes, names});
    const std::vector<std::string> tuning = compiled.tuning_log(version);
    OPWELD_TRY(const LaunchAccount launches,
               compiled.executable.launches(sizes, model.single_launch));
    std::optional<KernelTimes> times;
    if (measure) {
      OPWELD_TRY(const std::vector<Tensor> inputs, find_inputs(graph, model, {}));
      OPWELD_TRY(times, kernel_times(compiled, model, inputs));
    }
    if (model.json || !file.empty()) {
      OPWELD_TRY(std::string json, explain_json(plan, sizes, launches, tuning, &names));
      if (times) {
        auto document = nlohmann::ordered_json::parse(json);
        document["times"] = kernel_times_json(plan, *times);
        json = document.dump(2);
      }
      if (!file.empty()) {
        std::ofstream out(file);
        out << json << "\n";
        if (!out.flush()) return fail("cannot write '{}'", file);
      }
      if (model.json) fmt::print("{}\n", json);
      return {};
    }
    OPWELD_CHECK(print_kernels(plan, sizes, launches));
    for (const std::string& line : conditions_log(plan, sizes)) fmt::print("{}\n", line);
    if (level == FusionLevel::Auto) fmt::print("{}\n", search_log(plan));
    OPWELD_CHECK(print_log(plan, sizes));
    for (const std::string& line : tuning) fmt::print("{}\n", line);
    for (const std::string& note : compiled.notes) fmt::print("note: {}\n", note);
    if (times) print_kernel_times(plan, *times);
    return print_levels(graph, sizes);
  }

 private:
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
      OPWELD_TRY(const Compiled compiled, compile_model(graph, untuned, level));
      OPWELD_TRY(const auto layers, equal_layers(compiled.executable.plan(sizes), sizes));
      OPWELD_TRY(const Traffic total, total_traffic(compiled.executable.plan(sizes), sizes));
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
  return [command] { return (*command)(); };
}

}  // namespace opweld::cli
