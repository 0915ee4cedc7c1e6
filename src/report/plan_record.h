// What an account in a file (explain_json) says of a plan, as far as two are compared by it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "support/expected.h"

namespace opweld {

struct PlanRecord {
  struct Kernel {
    std::string name;
    std::string kind;
    std::string operators;
    std::string layer;
    std::vector<std::string> sources;  // names of the user's model, sorted
    std::int64_t read_bytes = 0;
    std::int64_t written_bytes = 0;

    // All but its name, which is a number.
    [[nodiscard]] bool equals(const Kernel& other) const;
  };
  // Edges between the same two operators are told apart by their order.
  struct EdgeName {
    std::string from;
    std::string to;
    int occurrence = 0;

    auto operator<=>(const EdgeName&) const = default;
  };
  struct Verdict {
    std::string code;  // empty: fused
    std::string detail;
  };

  std::string level;
  std::string version;  // "2 of 3"; empty: the graph has one plan
  std::map<std::string, std::int64_t> sizes;
  std::vector<Kernel> kernels;
  std::map<EdgeName, Verdict> edges;
  std::map<std::string, std::int64_t> totals;  // "kernels", "read_bytes" ...
};

// Whatever the text is: a record, or a usage error that says what is missing. `name` stands for it
// in messages.
Expected<PlanRecord> parse_plan_record(std::string_view text, std::string_view name);

}  // namespace opweld
