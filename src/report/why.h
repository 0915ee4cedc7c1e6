// Why an operator is in the kernel it is in, and why two operators share one or do not.
//
// An answer has three sentences: what happened, by which rule, and what to change if that matters.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fusion/plan.h"
#include "report/model_names.h"
#include "support/expected.h"

namespace opweld {

struct Answer {
  std::string happened;
  std::string rule;
  std::string change;
  std::string code;  // of the rule; empty where none was in the way
};

// The plan of a graph, and whose names its operators go by. All must stay.
struct PlannedModel {
  const Graph& graph;
  const FusionPlan& plan;
  const Bindings& bindings;  // at which bytes are told
  const ModelNames& names;
};

// Usage errors are those of ModelNames::find.
Expected<Answer> why_there(const PlannedModel& model, std::string_view name);
Expected<Answer> why_together(const PlannedModel& model, std::string_view a, std::string_view b);

using NodeSet = std::vector<const Node*>;

// The edges of a plan, to follow the data along.
class DataFlow {
 public:
  explicit DataFlow(const FusionPlan& plan);

  // The edges that lead from one of the nodes to one of the others, the fewest of them; empty where
  // none do.
  [[nodiscard]] std::vector<const Verdict*> way(const NodeSet& from, const NodeSet& to) const;

 private:
  std::map<const Node*, std::vector<const Verdict*>> edges_;  // by producer
};

// The kernel that the node is in; null for a reshape that is in none.
const Kernel* kernel_holding(const FusionPlan& plan, const Node* node);

// "F-COST: Fusing is possible ... (the detail)", without a period.
std::string rule_text(const Verdict& verdict);

}  // namespace opweld
