#include "report/page.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fusion/reasons.h"
#include "report/flops.h"
#include "report/page_graph.h"

namespace opweld {

using Json = nlohmann::ordered_json;

namespace {

Json target_json(const Target& target, int threads) {
  return {{"name", target.name},
          {"model", target.model},
          {"cores", target.cores},
          {"threads", threads},
          {"vector_bits", target.vector_bits},
          // Of all threads that have a core to themselves.
          {"peak_flops", target.peak_flops * std::min(threads, target.cores)},
          {"bandwidth", target.bandwidth},
          {"launch_seconds", target.launch_seconds}};
}

Expected<Json> kernels_json(const FusionPlan& plan, const PageContent& content) {
  Json kernels = Json::array();
  for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
    const Kernel& kernel = plan.kernels[i];
    OPWELD_TRY(const std::int64_t read, FusionPlan::bytes_read(kernel).evaluate(content.sizes));
    OPWELD_TRY(const std::int64_t written,
               FusionPlan::bytes_written(kernel).evaluate(content.sizes));
    OPWELD_TRY(const double flops, flops_of(kernel, content.sizes));
    kernels.push_back({{"name", kernel.name},
                       {"kind", to_string(kernel.kind)},
                       {"label", kernel.label},
                       {"layer", kernel.scope},
                       {"read_bytes", read},
                       {"written_bytes", written},
                       {"flops", flops}});
    if (content.kernel_seconds.empty()) continue;
    kernels.back()["seconds"] = content.kernel_seconds[i];
  }
  return kernels;
}

Json reasons_json() {
  Json reasons = Json::object();
  for (const Reason& each : all_reasons()) {
    reasons[std::string(each.name)] = {{"sentence", each.sentence}, {"remedy", each.remedy}};
  }
  return reasons;
}

// What a person would call the value: its name in the model, else by who makes it.
std::string name_of(const Value& value) {
  if (!value.name().empty()) return value.name();
  return value.producer() == nullptr ? "an input" : value.producer()->display_name();
}

Expected<Json> memory_json(const PageContent& content) {
  OPWELD_TRY(const MemoryAccount account, content.executable->memory(content.sizes, false));
  OPWELD_TRY(const std::vector<ArenaBlock> blocks, content.executable->arena(content.sizes));
  Json result = {{"arena_bytes", account.arena_bytes},
                 {"live_bytes", account.live_bytes},
                 {"scratch_bytes", account.scratch_bytes},
                 {"weight_bytes", account.weight_bytes},
                 {"held_weight_bytes", account.held_weight_bytes},
                 {"blocks", Json::array()}};
  for (const ArenaBlock& block : blocks) {
    result["blocks"].push_back(
        {{"name",
          block.value == nullptr ? "shared by the tasks of the kernel" : name_of(*block.value)},
         {"type", block.value == nullptr ? "" : to_string(block.value->type())},
         {"offset", block.offset},
         {"bytes", block.bytes},
         {"first", block.first_kernel},
         {"last", block.last_kernel}});
  }
  return result;
}

Json traffic_json(const Traffic& traffic) {
  return {{"kernels", traffic.kernels},
          {"read_bytes", traffic.read_bytes},
          {"written_bytes", traffic.written_bytes}};
}

Json levels_json(std::span<const LevelTraffic> levels) {
  Json result = Json::array();
  for (const LevelTraffic& each : levels) {
    Json level = {{"level", to_string(each.level)}};
    level.update(traffic_json(each.total));
    if (each.median_seconds > 0) level["seconds"] = each.median_seconds;
    level["layers"] = Json::array();
    for (const LayerTraffic& layer : each.layers) {
      Json entry = {{"layer", layer.scope}};
      entry.update(traffic_json(layer.traffic));
      level["layers"].push_back(std::move(entry));
    }
    result.push_back(std::move(level));
  }
  return result;
}

}  // namespace

Expected<std::string> page_json(const PageContent& content) {
  const FusionPlan& plan = content.executable->plan(content.sizes);
  Json result = {{"opweld", content.version},         {"model", content.model},
                 {"graph", content.imported->name()}, {"level", to_string(plan.level)},
                 {"sizes", Json::object()},           {"repeats", content.repeats}};
  result["plan"] = version_text(plan, content.sizes);
  for (const auto& [name, size] : content.sizes) result["sizes"][name] = size;
  result["target"] = target_json(content.target, content.executable->threads());
  OPWELD_TRY(result["before"], imported_graph_json(*content.imported, plan, content.sizes));
  OPWELD_TRY(result["after"], planned_graph_json(content.executable->graph(), plan, content.sizes));
  OPWELD_TRY(result["kernels"], kernels_json(plan, content));
  result["reasons"] = reasons_json();
  OPWELD_TRY(result["memory"], memory_json(content));
  result["levels"] = levels_json(content.levels);
  result["notes"] = content.notes;
  return result.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Expected<std::string> render_page(std::string_view page_template, std::string_view json) {
  const std::size_t at = page_template.find(kPageMarker);
  if (at == std::string_view::npos ||
      page_template.find(kPageMarker, at + 1) != std::string_view::npos) {
    return fail("the template of the page must have {} exactly once", kPageMarker);
  }
  std::string page(page_template.substr(0, at));
  page.reserve(page_template.size() + json.size() + json.size() / 8);
  // These stand in JSON inside strings alone, where they may be written as escapes: so neither
  // "</script" nor "<!--" is left for HTML to see.
  for (const char c : json) {
    switch (c) {
      case '<':
        page += "\\u003c";
        break;
      case '>':
        page += "\\u003e";
        break;
      case '&':
        page += "\\u0026";
        break;
      default:
        page += c;
    }
  }
  page += page_template.substr(at + kPageMarker.size());
  return page;
}

}  // namespace opweld
