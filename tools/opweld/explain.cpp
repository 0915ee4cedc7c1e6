// opweld explain: the account of what was fused.
#include <fstream>
#include <memory>

#include "commands.h"
#include "ops/reference.h"
#include "report/account.h"
#include "session.h"

namespace opweld::cli {

namespace {

struct ExplainCommand {
  ModelOptions model;
  std::string file;
  bool all_edges = false;

  Status operator()() const {
    OPWELD_TRY(const Graph graph, load_model(model));
    OPWELD_TRY(const FusionLevel level, parse_level(model.fusion));
    OPWELD_TRY(const Bindings sizes, choose_sizes(graph, model.dims));
    OPWELD_TRY(const Compiled compiled, compile_model(graph, model, level));
    const std::size_t version = compiled.executable.version_for(sizes);
    const FusionPlan& plan = compiled.executable.versions()[version].plan;
    const std::vector<std::string> tuning = compiled.tuning_log(version);
    OPWELD_TRY(const LaunchAccount launches,
               compiled.executable.launches(sizes, model.single_launch));
    if (model.json || !file.empty()) {
      OPWELD_TRY(const std::string json, explain_json(plan, sizes, launches, tuning));
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
    OPWELD_CHECK(print_log(plan, sizes));
    for (const std::string& line : tuning) fmt::print("{}\n", line);
    for (const std::string& note : compiled.notes) fmt::print("note: {}\n", note);
    return print_levels(graph, sizes);
  }

 private:
  // In a single launch with the stretch that each kernel is part of.
  static Status print_kernels(const FusionPlan& plan, const Bindings& sizes,
                              const LaunchAccount& launches) {
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
    OPWELD_TRY(const auto lines, fusion_log(plan, sizes, all_edges));
    fmt::print("\n");
    for (const std::string& line : lines) fmt::print("{}\n", line);
    return {};
  }

  // Kernels and bytes of each layer at each level.
  Status print_levels(const Graph& graph, const Bindings& sizes) const {
    constexpr std::pair<const char*, FusionLevel> kLevels[] = {
        {"none", FusionLevel::None}, {"ops", FusionLevel::Ops}, {"auto", FusionLevel::Auto}};
    fmt::print("\n{:<40} {:>6} {:>8} {:>12} {:>12}\n", "layer", "fusion", "kernels", "read",
               "written");
    for (const auto& [name, level] : kLevels) {
      // The bytes of a level do not depend on block sizes.
      ModelOptions untuned = model;
      untuned.tune = false;
      OPWELD_TRY(const Compiled compiled, compile_model(graph, untuned, level));
      OPWELD_TRY(const auto layers, layer_traffic(compiled.executable.plan(sizes), sizes));
      OPWELD_TRY(const Traffic total, total_traffic(compiled.executable.plan(sizes), sizes));
      for (const LayerTraffic& layer : layers) {
        print_row(layer.scope.empty() ? "(no layer)" : layer.scope, name, layer.traffic);
      }
      print_row("total", name, total);
    }
    return {};
  }

  static void print_row(const std::string& layer, const char* level, const Traffic& traffic) {
    fmt::print("{:<40} {:>6} {:>8} {:>12} {:>12}\n", layer, level, traffic.kernels,
               human_bytes(static_cast<double>(traffic.read_bytes)),
               human_bytes(static_cast<double>(traffic.written_bytes)));
  }
};

}  // namespace

Command add_explain(CLI::App& app) {
  auto command = std::make_shared<ExplainCommand>();
  add_model_options(app, command->model);
  app.add_option("--explain", command->file, "Write the account as JSON to this file");
  app.add_flag("--all-edges", command->all_edges,
               "One line for every edge that was not fused, with its reason");
  return [command] { return (*command)(); };
}

}  // namespace opweld::cli
