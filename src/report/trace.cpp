#include "report/trace.h"

#include <nlohmann/json.hpp>

namespace opweld {

using Json = nlohmann::ordered_json;

namespace {

constexpr int kProcess = 1;
constexpr int kLaunchRow = 0;

int row_of(int thread) {
  return kLaunchRow + 1 + thread;
}

Json row_name(int row, const std::string& name) {
  return {{"name", "thread_name"},
          {"ph", "M"},
          {"pid", kProcess},
          {"tid", row},
          {"args", {{"name", name}}}};
}

Json event(const std::string& name, const char* category, int row, double begin, double end) {
  constexpr double kMicroseconds = 1e6;
  return {{"name", name},
          {"cat", category},
          {"ph", "X"},
          {"pid", kProcess},
          {"tid", row},
          {"ts", begin * kMicroseconds},
          {"dur", (end - begin) * kMicroseconds}};
}

}  // namespace

std::string chrome_trace(const FusionPlan& plan, const RunStats& stats, int threads) {
  Json events = Json::array();
  events.push_back(
      {{"name", "process_name"}, {"ph", "M"}, {"pid", kProcess}, {"args", {{"name", "opweld"}}}});
  events.push_back(row_name(kLaunchRow, "launches"));
  for (int i = 0; i < threads; ++i)
    events.push_back(row_name(row_of(i), fmt::format("thread {}", i)));
  for (const Timeline::Launch& launch : stats.timeline.launches) {
    const Kernel& first = plan.kernels[static_cast<std::size_t>(launch.first_kernel)];
    const std::string name =
        launch.kernels == 1 ? first.name : fmt::format("{} kernels", launch.kernels);
    events.push_back(event(name, "launch", kLaunchRow, launch.begin, launch.end));
    events.back()["args"] = {{"kernels", launch.kernels}};
  }
  for (const Timeline::Work& work : stats.timeline.work) {
    const auto index = static_cast<std::size_t>(work.kernel);
    const Kernel& kernel = plan.kernels[index];
    events.push_back(event(kernel.label, "kernel", row_of(work.thread), work.begin, work.end));
    events.back()["args"] = {{"kernel", kernel.name},
                             {"kind", to_string(kernel.kind)},
                             {"layer", kernel.scope},
                             {"read_bytes", stats.by_kernel[index].bytes_read},
                             {"written_bytes", stats.by_kernel[index].bytes_written}};
  }
  const Json trace = {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
  return trace.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace opweld
