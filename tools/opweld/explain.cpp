// opweld explain: the account of what was fused.
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "both/explanation.h"
#include "both/inputs.h"
#include "commands.h"
#include "compiled_file.h"
#include "model_options.h"
#include "report/account.h"

namespace opweld::cli {

namespace {

using Json = nlohmann::ordered_json;

std::string sizes_text(const Bindings& sizes) {
  std::vector<std::string> given;
  for (const auto& [name, size] : sizes) given.push_back(fmt::format("{} = {}", name, size));
  return given.empty() ? "" : fmt::format(" at {}", fmt::join(given, ", "));
}

// What was known when the model was compiled, with figures for the sizes that are asked for; where
// none are, those that compiling was given.
class CompiledExplanation {
 public:
  CompiledExplanation(const ExplainArguments& arguments, const aot::LoadedModel& loaded,
                      const AccountRecord& record)
      : arguments_(arguments),
        loaded_(loaded),
        record_(record),
        names_(loaded.executable.graph(), record.history ? &*record.history : nullptr) {}

  Status tell() const {
    const Executable& executable = loaded_.executable;
    const ModelOptions& model = arguments_.model;
    OPWELD_TRY(const Bindings sizes, choose_sizes(executable.graph(), model.dims, record_.sizes));
    const std::size_t version = executable.version_for(sizes);
    const FusionPlan& plan = record_.plans[version];
    const PlannedModel planned{executable.graph(), plan, sizes, names_};
    OPWELD_CHECK(cli::check_requirements(planned, model));
    if (!arguments_.why.empty()) return answer(arguments_, planned);
    OPWELD_TRY(const LaunchAccount launches, executable.launches(sizes, model.single_launch));
    if (model.json || !arguments_.file.empty()) {
      OPWELD_TRY(const std::string account,
                 explain_json(plan, sizes, launches, record_.tuning[version], &names_));
      return write_account(arguments_, document(account));
    }
    fmt::print("{}, compiled for target {}{}\n", model.model, loaded_.origin.target,
               sizes_text(sizes));
    OPWELD_CHECK(print_kernels(plan, sizes, launches));
    for (const std::string& line : conditions_log(plan, sizes)) fmt::print("{}\n", line);
    if (const std::string text = versions_log(plan); !text.empty()) fmt::print("{}\n", text);
    if (plan.level == FusionLevel::Auto) fmt::print("{}\n", search_log(plan));
    OPWELD_CHECK(print_log(plan, sizes, arguments_.all_edges));
    for (const std::string& line : record_.tuning[version]) fmt::print("{}\n", line);
    for (const std::string& note : record_.notes) fmt::print("note: {}\n", note);
    return {};
  }

 private:
  [[nodiscard]] std::string document(const std::string& account) const {
    Json document = {{"model", record_.model}, {"target", {{"name", loaded_.origin.target}}}};
    document.update(Json::parse(account));
    document["notes"] = record_.notes;
    return document.dump(2, ' ', false, Json::error_handler_t::replace);
  }

  const ExplainArguments& arguments_;
  const aot::LoadedModel& loaded_;
  const AccountRecord& record_;
  ModelNames names_;
};

Status explain_compiled(const ExplainArguments& arguments) {
  const std::string& path = arguments.model.model;
  if (arguments.measure || arguments.passes) {
    return usage_error(
        "{}: --{} takes the compiler at work; give it to explain with the model, or time this one "
        "with opweld bench --profile",
        path, arguments.measure ? "measure" : "passes");
  }
  OPWELD_TRY(const aot::LoadedModel loaded, load_compiled_file(arguments.model, Purpose::Look));
  OPWELD_TRY(const AccountRecord record, account_record(loaded, path));
  return CompiledExplanation(arguments, loaded, record).tell();
}

}  // namespace

Command add_explain(CLI::App& app) {
  auto arguments = std::make_shared<ExplainArguments>();
  add_model_options(app, arguments->model);
  app.add_option("--explain", arguments->file,
                 "Write the account as JSON to this file: kernels, and a verdict on every edge");
  app.add_option("--why", arguments->why,
                 "NODE, or two of them: why it is in the kernel it is in, or why the two share one "
                 "or do not, and what to change. By its name in the model, or what that alone "
                 "begins with")
      ->expected(1, 2);
  app.add_flag("--all-edges", arguments->all_edges,
               "One line for every edge, fused or not, with its reason");
  app.add_flag("--measure", arguments->measure,
               "Run the model on random inputs of these sizes, and hold the time of each kernel "
               "against what the cost model expects of it on this machine");
  app.add_flag("--passes", arguments->passes, "How long each pass of the compiler took");
  return of_either(arguments, explain_compiled, &CompilingHalf::explain);
}

}  // namespace opweld::cli
