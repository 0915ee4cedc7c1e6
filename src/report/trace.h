// A run on a time line, in the trace event format that chrome://tracing and Perfetto open
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU, "JSON Object
// Format" and "Complete Events").
#pragma once

#include <string>

#include "fusion/plan.h"
#include "runtime/executable.h"

namespace opweld {

// One row for the hand-overs to the thread team, and one for each thread with the kernels that it
// worked on. Times are microseconds since the run began; the bytes of a kernel are in its
// arguments. `stats` are those of a run of the plan with RunOptions::trace.
std::string chrome_trace(const FusionPlan& plan, const RunStats& stats, int threads);

}  // namespace opweld
