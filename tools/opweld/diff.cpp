// opweld diff: what changed between two plans.
#include <fstream>
#include <memory>
#include <sstream>

#include "commands.h"
#include "compiled_file.h"
#include "report/plan_diff.h"

namespace opweld::cli {

namespace {

struct DiffCommand : DiffArguments {
  // As diff has it: 0 where they are equal, 1 where they differ, 2 where that cannot be told.
  Status operator()() const {
    OPWELD_TRY(const PlanRecord first, read(before));
    OPWELD_TRY(const PlanRecord second, read(after));
    const PlanDiff diff = compare_plans(first, second);
    if (json) {
      fmt::print("{}\n", to_json(diff));
    } else {
      fmt::print("{}", to_text(diff));
    }
    if (!diff.empty()) return fail("{}", diff.summary());
    if (!json) {
      fmt::print("the plans are equal: {} kernels, {} edges\n", first.kernels.size(),
                 first.edges.size());
    }
    return {};
  }

 private:
  // Of a compiled model, the account at the sizes that compiling was given.
  static Expected<PlanRecord> read(const std::string& path) {
    if (is_compiled_file(path)) {
      const auto account = stored_account(path);
      // Not that they differ: it is unknown whether they do.
      if (!account) return usage_error("{}", account.error().message);
      return parse_plan_record(*account, path);
    }
    const std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    if (file) text << file.rdbuf();
    if (!file || !text) return usage_error("cannot read '{}'", path);
    return parse_plan_record(text.str(), path);
  }
};

}  // namespace

Command add_diff(CLI::App& app) {
  auto command = std::make_shared<DiffCommand>();
  app.add_option("before", command->before,
                 "Account as explain --explain=FILE writes it, or a compiled model (.opw)")
      ->required();
  app.add_option("after", command->after, "Another one, of the same model")->required();
  app.add_flag("--json", command->json, "Print JSON for scripts");
  app.footer(
      "Exit code: 0 where the plans are equal, 1 where they differ, 2 where that is unknown.");
  return [command] { return (*command)(); };
}

}  // namespace opweld::cli
