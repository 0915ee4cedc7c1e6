#include "both/explanation.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "report/account.h"

namespace opweld::cli {

Status write_account(const ExplainArguments& arguments, const std::string& json) {
  if (!arguments.file.empty()) {
    std::ofstream out(arguments.file);
    out << json << "\n";
    if (!out.flush()) return fail("cannot write '{}'", arguments.file);
  }
  if (arguments.model.json) fmt::print("{}\n", json);
  return {};
}

Status answer(const ExplainArguments& arguments, const PlannedModel& planned) {
  const std::vector<std::string>& why = arguments.why;
  OPWELD_TRY(const Answer found,
             why.size() == 1 ? why_there(planned, why[0]) : why_together(planned, why[0], why[1]));
  if (arguments.model.json) {
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

Status print_kernels(const FusionPlan& plan, const Bindings& sizes, const LaunchAccount& launches) {
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

Status print_log(const FusionPlan& plan, const Bindings& sizes, bool all_edges) {
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

}  // namespace opweld::cli
