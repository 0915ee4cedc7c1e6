// What accounts of a compiled model are told from, beside its graph: kept in the model's file, so
// that whoever has that alone is told, at any sizes, what the compiler would have told.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fusion/plan.h"
#include "rewrite/history.h"
#include "runtime/executable.h"
#include "support/expected.h"

namespace opweld {

struct AccountRecord {
  std::string model;               // the file that was compiled; may be empty
  Bindings sizes;                  // to tell figures at where nobody asks for others
  std::vector<FusionPlan> plans;   // with their verdicts, one for each of the versions
  std::optional<History> history;  // of the rewrites, for names that are not in the graph
  std::vector<std::string> notes;  // of the compilation
  // By plan, lines about kernels with block sizes that were measured.
  std::vector<std::vector<std::string>> tuning;
};

// JSON. The plans are those of the graph.
std::string to_json(const Graph& graph, const AccountRecord& record);

// The inverse, for the executable of an equal graph, which must stay. Fails where the text is no
// such record, or one of other plans than the executable's; any text may be given.
Expected<AccountRecord> parse_account_record(const Executable& executable, std::string_view text);

}  // namespace opweld
