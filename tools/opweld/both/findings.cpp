#include "both/findings.h"

#include <fmt/ranges.h>

#include <cstdio>
#include <nlohmann/json.hpp>

namespace opweld::cli {

namespace {

nlohmann::ordered_json to_json(const std::vector<Finding>& findings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  bool well = true;
  for (const Finding& finding : findings) {
    list.push_back({{"name", finding.name},
                    {"value", finding.value},
                    {"note", finding.note},
                    {"problem", finding.problem}});
    well = well && finding.problem.empty();
  }
  return {{"well", well}, {"findings", std::move(list)}};
}

void print(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    fmt::print("{:<18} {}\n", finding.name, finding.value);
    if (!finding.note.empty()) fmt::print("{:<18} note: {}\n", "", finding.note);
    if (!finding.problem.empty()) fmt::print("{:<18} PROBLEM: {}\n", "", finding.problem);
  }
}

}  // namespace

Status tell_findings(const std::vector<Finding>& findings, bool json) {
  if (json) {
    fmt::print("{}\n",
               to_json(findings).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    print(findings);
  }
  std::vector<std::string> problems;
  for (const Finding& finding : findings) {
    if (!finding.problem.empty()) problems.push_back(finding.name);
  }
  if (!problems.empty()) return fail("something is wrong with: {}", fmt::join(problems, ", "));
  return {};
}

}  // namespace opweld::cli
