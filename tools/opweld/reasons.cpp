// opweld reasons: what the codes in logs and accounts mean.
#include "fusion/reasons.h"

#include <fmt/ranges.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "commands.h"
#include "report/reasons_page.h"

namespace opweld::cli {

namespace {

Status show_reason(const std::string& code) {
  std::vector<std::string_view> names;
  for (const Reason& reason : all_reasons()) {
    names.push_back(reason.name);
    if (reason.name != code) continue;
    fmt::print("{}: {}\nWhat you can do: {}\n", reason.name, reason.sentence, reason.remedy);
    return {};
  }
  return usage_error("there is no reason '{}'; there are {}", code, fmt::join(names, ", "));
}

}  // namespace

Command add_reasons(CLI::App& app) {
  auto code = std::make_shared<std::string>();
  app.add_option("code", *code, "One code, such as F-FORK; without it, all as Markdown");
  return [code]() -> Status {
    if (!code->empty()) return show_reason(*code);
    fmt::print("{}", reasons_page());
    return {};
  };
}

}  // namespace opweld::cli
