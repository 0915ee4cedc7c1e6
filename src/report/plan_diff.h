// What changed between two plans of a model: of two versions of Opweld, of an exporter, of a flag.
//
// Kernels are known by the operators of the user's model that they hold, and not by their numbers:
// two that share an operator belong together, and what belongs together is told as one change.
#pragma once

#include <string>
#include <vector>

#include "report/plan_record.h"

namespace opweld {

struct PlanDiff {
  // A level, a size or a total that is another now; sizes that only one has are "none" in the
  // other.
  struct Figure {
    std::string name;
    std::string before;
    std::string after;
  };
  // Kernels that hold the same operators before and after, between them.
  struct Regrouping {
    std::vector<const PlanRecord::Kernel*> before;
    std::vector<const PlanRecord::Kernel*> after;
  };
  struct VerdictChange {
    PlanRecord::EdgeName edge;
    PlanRecord::Verdict before;
    PlanRecord::Verdict after;
  };

  std::vector<Figure> figures;
  std::vector<Regrouping> kernels;
  std::vector<VerdictChange> verdicts;
  std::vector<PlanRecord::EdgeName> gone;  // edges that the graph no longer has
  std::vector<PlanRecord::EdgeName> added;

  [[nodiscard]] bool empty() const;
  // "4 kernels and 2 verdicts differ"
  [[nodiscard]] std::string summary() const;
};

// Points into both, which must stay.
PlanDiff compare_plans(const PlanRecord& before, const PlanRecord& after);

// As people read it, like a diff: what is gone behind a minus, what is new behind a plus. Changes
// that are alike but for numbers in names, as in repeated layers, are shown once with their count.
std::string to_text(const PlanDiff& diff);

// {"equal", "figures": [...], "kernels": [...], "verdicts": [...], "edges_gone": [...],
// "edges_added": [...]}, each with "before" and "after", none left out.
std::string to_json(const PlanDiff& diff);

}  // namespace opweld
