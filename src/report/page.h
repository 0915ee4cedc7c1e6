// The page of `opweld report`: what it shows as one JSON document, and that put into its template.
//
// web/src/report.ts has the same document as TypeScript types, member by member.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "report/account.h"
#include "runtime/executable.h"
#include "support/expected.h"
#include "target/target.h"

namespace opweld {

// What a level of fusion moves.
struct LevelTraffic {
  FusionLevel level = FusionLevel::None;
  Traffic total;
  std::vector<LayerTraffic> layers;
  double median_seconds = 0;  // of a run; 0: not measured
};

struct PageContent {
  std::string version;  // of Opweld
  std::string model;    // what the user calls it, such as the name of its file
  // As it was before the executable's was cloned from it.
  const Graph* imported = nullptr;
  const Executable* executable = nullptr;
  Bindings sizes;
  Target target;
  // By kernel of the plan for these sizes, the median of `repeats` runs; empty: not measured.
  std::vector<double> kernel_seconds;
  int repeats = 0;
  std::vector<LevelTraffic> levels;
  std::vector<std::string> notes;  // of the compiler
};

// One line. Names that are not UTF-8 have their odd bytes replaced.
Expected<std::string> page_json(const PageContent& content);

// The template with the document in place of kPageMarker, so written that nothing in it can end the
// element that it stands in. Fails where the template does not have the marker exactly once.
Expected<std::string> render_page(std::string_view page_template, std::string_view json);
inline constexpr std::string_view kPageMarker = "\"opweld-report-goes-here\"";

}  // namespace opweld
