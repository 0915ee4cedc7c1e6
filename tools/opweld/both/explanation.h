// What opweld explain says of a plan, whether its model was compiled now or is read from a file.
#pragma once

#include <string>

#include "arguments.h"
#include "fusion/plan.h"
#include "report/why.h"
#include "runtime/executable.h"
#include "support/expected.h"

namespace opweld::cli {

// An account in JSON, to where the arguments ask for it: the file, standard output.
Status write_account(const ExplainArguments& arguments, const std::string& json);

// Answers --why.
Status answer(const ExplainArguments& arguments, const PlannedModel& planned);

// A line for each kernel; in a single launch with the stretch that it is part of.
Status print_kernels(const FusionPlan& plan, const Bindings& sizes, const LaunchAccount& launches);

// What was fused, and with `all_edges` a line for every edge.
Status print_log(const FusionPlan& plan, const Bindings& sizes, bool all_edges);

}  // namespace opweld::cli
