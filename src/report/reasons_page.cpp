#include "report/reasons_page.h"

#include <fmt/format.h>

#include "fusion/reasons.h"

namespace opweld {

std::string reasons_page() {
  std::string page =
      "# Why two operators were not fused\n"
      "\n"
      "Every edge of a model's graph, from an operator to a reader of its result, ends with one\n"
      "verdict: fused, or kept for one of these reasons. `opweld explain MODEL --why A B` tells "
      "that "
      "of\n"
      "two operators; `--all-edges` and the log at `OPWELD_LOG_LEVEL=0` have a line for every "
      "edge, "
      "with\n"
      "code and details. Codes are stable: a new reason gets a new one.\n"
      "\n"
      "This page is written by `opweld reasons`, from the table in `src/fusion/reasons.cpp`.\n";
  for (const Reason& reason : all_reasons()) {
    page += fmt::format("\n## {}\n\n{}\n\n*What you can do:* {}\n", reason.name, reason.sentence,
                        reason.remedy);
  }
  return page;
}

}  // namespace opweld
