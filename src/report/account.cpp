#include "report/account.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "fusion/kernel_kind.h"
#include "fusion/reasons.h"
#include "ops/stored_weights.h"
#include "report/layers.h"
#include "runtime/oversize.h"

namespace opweld {

using Json = nlohmann::ordered_json;

std::string_view to_string(FusionLevel level) {
  constexpr std::string_view kNames[] = {"none", "ops", "auto"};
  return kNames[static_cast<int>(level)];
}

std::string human_bytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (bytes >= 1000 && unit + 1 < std::size(kUnits)) {
    bytes /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

namespace {

Expected<Traffic> kernel_traffic(const Kernel& kernel, const Bindings& bindings) {
  Traffic traffic;
  traffic.kernels = 1;
  const auto read = FusionPlan::bytes_read(kernel).evaluate(bindings);
  if (!read) return too_large(kernel, read.error(), bindings);
  const auto written = FusionPlan::bytes_written(kernel).evaluate(bindings);
  if (!written) return too_large(kernel, written.error(), bindings);
  traffic.read_bytes = *read;
  traffic.written_bytes = *written;
  return traffic;
}

void add(Traffic& total, const Traffic& part) {
  total.kernels += part.kernels;
  total.read_bytes += part.read_bytes;
  total.written_bytes += part.written_bytes;
}

// What matmuls that became one would read of their common operand beside what the one reads.
Expected<std::int64_t> repeated_bytes(const Node& node, const Bindings& bindings) {
  if (node.op() != "matmul") return 0;
  const Dim bytes = node.operand(0)->type().num_bytes() * (node.source().operators - 1);
  return bytes.evaluate(bindings);
}

// Nodes of earlier kernels that compute them, too: what is recomputed counts for the first.
using Counted = std::set<const Node*>;

// What the operators of the kernel would move, each as a kernel of its own, less what it moves.
Expected<std::int64_t> saved_bytes(const Kernel& kernel, const Counted& counted,
                                   const Bindings& bindings) {
  OPWELD_TRY(const Traffic fused, kernel_traffic(kernel, bindings));
  Traffic alone;
  for (Node* node : kernel.nodes) {
    if (is_alias(*node) || operators_of(*node) == 0 || counted.contains(node)) continue;
    Kernel single;
    for (const Value* operand : node->operands()) {
      Node* const producer = operand != nullptr ? operand->producer() : nullptr;
      if (producer != nullptr && is_weight_prologue(*producer)) single.nodes.push_back(producer);
    }
    single.nodes.push_back(node);
    complete_kernel(single);
    OPWELD_TRY(Traffic traffic, kernel_traffic(single, bindings));
    OPWELD_TRY(const std::int64_t repeated, repeated_bytes(*node, bindings));
    traffic.read_bytes += repeated;
    add(alone, traffic);
  }
  return alone.read_bytes + alone.written_bytes - fused.read_bytes - fused.written_bytes;
}

std::int64_t operators_in(const Kernel& kernel, const Counted& counted) {
  std::int64_t operators = 0;
  for (const Node* node : kernel.nodes) {
    operators += is_alias(*node) || counted.contains(node) ? 0 : operators_of(*node);
  }
  return operators;
}

Expected<std::string> recompute_line(const Recomputation& recomputation, const Bindings& bindings) {
  OPWELD_TRY(const std::int64_t bytes, recomputation.bytes_saved.evaluate(bindings));
  OPWELD_TRY(const std::int64_t flops, recomputation.flops_added.evaluate(bindings));
  return fmt::format("AutoFusion: {} is recomputed in {} kernels, saves {}, adds {} operations",
                     recomputation.value->producer()->display_name(), recomputation.kernels,
                     human_bytes(static_cast<double>(bytes)), flops);
}

// "F-GRAPH-OUTPUT" -> "graph-output"
std::string word_of(std::string_view code) {
  std::string word(code.substr(code.find('-') + 1));
  std::ranges::transform(word, word.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return word;
}

std::string keep_line(const Verdict& verdict) {
  const Reason& why = reason(verdict.code);
  std::string_view sentence = why.sentence;
  sentence.remove_suffix(1);  // the period
  return fmt::format("AutoFusion: keep {} | {}: {} ({}) [{}] hint: {}",
                     verdict.producer->display_name(), verdict.consumer->display_name(),
                     word_of(why.name), verdict.detail.empty() ? sentence : verdict.detail,
                     why.name, why.remedy);
}

Expected<std::string> fuse_line(const FusionPlan& plan, const Verdict& verdict,
                                const Bindings& bindings) {
  std::string line = fmt::format("AutoFusion: fuse {} | {}", verdict.producer->display_name(),
                                 verdict.consumer->display_name());
  if (verdict.kernel < 0) return fmt::format("{}: {}", line, verdict.detail);
  OPWELD_TRY(const std::int64_t bytes, verdict.bytes_saved.evaluate(bindings));
  return fmt::format("{} -> {} saves {}", line,
                     plan.kernels[static_cast<std::size_t>(verdict.kernel)].name,
                     human_bytes(static_cast<double>(bytes)));
}

std::vector<std::string> sources_of(const Node& node, const ModelNames* names) {
  return names != nullptr ? names->sources_of(node) : joined_names(node);
}

// Each once: an operator of the model may take several nodes. What only takes a merged result
// apart, or moves data for an operator, bears the name of one that another kernel may do the work
// of.
std::vector<std::string> sources_of(const Kernel& kernel, const ModelNames* names) {
  const auto works = [&](const Node* node) {
    return names != nullptr ? names->does_the_work(*node) : node->source().operators > 0;
  };
  const bool any = std::ranges::any_of(kernel.nodes, works);
  std::vector<std::string> sources;
  for (const Node* node : kernel.nodes) {
    if (any && !works(node)) continue;
    for (std::string& name : sources_of(*node, names)) {
      if (std::ranges::find(sources, name) == sources.end()) sources.push_back(std::move(name));
    }
  }
  return sources;
}

Json node_names(const Kernel& kernel) {
  Json names = Json::array();
  for (const Node* node : kernel.nodes) names.push_back(node->display_name());
  return names;
}

Json traffic_json(const Traffic& traffic) {
  return {{"kernels", traffic.kernels},
          {"read_bytes", traffic.read_bytes},
          {"written_bytes", traffic.written_bytes}};
}

Expected<Json> conditions_json(std::span<const SizeCondition> asked, const Bindings& bindings) {
  Json conditions = Json::array();
  for (const SizeCondition& each : asked) {
    OPWELD_TRY(const std::int64_t value, each.size.evaluate(bindings));
    conditions.push_back({{"what", each.what},
                          {"size", each.size.to_string()},
                          {"least", each.least},
                          {"value", value}});
  }
  return conditions;
}

// In the order in which a run looks for the first that is for its sizes.
Expected<Json> versions_json(const FusionPlan& plan, const Bindings& bindings) {
  Json versions = Json::array();
  for (std::size_t i = 0; i < plan.versions.size(); ++i) {
    Json version = {{"kernels", plan.versions[i].kernels}, {"chosen", i == plan.version}};
    OPWELD_TRY(version["conditions"], conditions_json(plan.versions[i].conditions, bindings));
    versions.push_back(std::move(version));
  }
  return versions;
}

Expected<Json> kernels_json(const FusionPlan& plan, const Bindings& bindings,
                            const LaunchAccount& launches, const ModelNames* names) {
  Json kernels = Json::array();
  for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
    const Kernel& kernel = plan.kernels[i];
    OPWELD_TRY(const Traffic traffic, kernel_traffic(kernel, bindings));
    kernels.push_back({{"id", kernel.id},
                       {"name", kernel.name},
                       {"kind", to_string(kernel.kind)},
                       {"operators", kernel.label},
                       {"layer", kernel.scope},
                       {"nodes", node_names(kernel)},
                       {"sources", sources_of(kernel, names)},
                       {"read_bytes", traffic.read_bytes},
                       {"written_bytes", traffic.written_bytes}});
    if (!launches.stretch_of.empty()) kernels.back()["stretch"] = launches.stretch_of[i];
  }
  return kernels;
}

Expected<Json> edges_json(const FusionPlan& plan, const Bindings& bindings,
                          const ModelNames* names) {
  Json edges = Json::array();
  for (const Verdict& verdict : plan.verdicts) {
    const bool fused = verdict.code == ReasonCode::Fused;
    const auto counted = verdict.bytes_saved.evaluate(bindings);
    if (!counted) return too_large(*verdict.value, bindings);
    OPWELD_TRY(const std::int64_t flops, verdict.flops_added.evaluate(bindings));
    Json edge = {{"from", verdict.producer->display_name()},
                 {"to", verdict.consumer->display_name()},
                 {"from_sources", sources_of(*verdict.producer, names)},
                 {"to_sources", sources_of(*verdict.consumer, names)},
                 {"verdict", fused ? "fused" : "kept"},
                 {"code", fused ? "" : std::string(reason(verdict.code).name)},
                 {"rule", fused ? "" : std::string(reason(verdict.code).sentence)},
                 {"detail", verdict.detail},
                 {"remedy", fused ? "" : std::string(reason(verdict.code).remedy)},
                 {"bytes_saved", *counted},
                 {"flops_added", flops},
                 {"kernel", nullptr}};
    if (fused && verdict.kernel >= 0) edge["kernel"] = verdict.kernel;
    edges.push_back(std::move(edge));
  }
  return edges;
}

Expected<Json> recomputed_json(const FusionPlan& plan, const Bindings& bindings) {
  Json list = Json::array();
  for (const Recomputation& each : plan.recomputations) {
    OPWELD_TRY(const std::int64_t bytes, each.bytes_saved.evaluate(bindings));
    OPWELD_TRY(const std::int64_t flops, each.flops_added.evaluate(bindings));
    list.push_back({{"node", each.value->producer()->display_name()},
                    {"kernels", each.kernels},
                    {"bytes_saved", bytes},
                    {"flops_added", flops}});
  }
  return list;
}

}  // namespace

Expected<Traffic> total_traffic(const FusionPlan& plan, const Bindings& bindings) {
  Traffic total;
  for (const Kernel& kernel : plan.kernels) {
    OPWELD_TRY(const Traffic traffic, kernel_traffic(kernel, bindings));
    add(total, traffic);
  }
  return total;
}

std::vector<std::string> sources_of(const Kernel& kernel, const ModelNames& names) {
  return sources_of(kernel, &names);
}

std::string_view layer_of(const Kernel& kernel) {
  std::string_view of_others;  // what is computed in several kernels is of no layer of theirs
  for (const Node* node : kernel.nodes) {
    const std::string& scope = node->source().scope;
    if (scope.empty()) continue;
    if (std::ranges::find(kernel.recomputed, node) == kernel.recomputed.end()) return scope;
    if (of_others.empty()) of_others = scope;
  }
  return of_others;
}

Expected<std::vector<LayerTraffic>> layer_traffic(const FusionPlan& plan,
                                                  const Bindings& bindings) {
  std::vector<LayerTraffic> layers;
  for (const Kernel& kernel : plan.kernels) {
    OPWELD_TRY(const Traffic traffic, kernel_traffic(kernel, bindings));
    const std::string scope(layer_of(kernel));
    auto layer = std::find_if(layers.begin(), layers.end(),
                              [&](const LayerTraffic& each) { return each.scope == scope; });
    if (layer == layers.end()) layer = layers.insert(layers.end(), {scope, {}});
    add(layer->traffic, traffic);
  }
  return layers;
}

Expected<std::vector<std::string>> fusion_log(const FusionPlan& plan, const Bindings& bindings,
                                              bool every_edge) {
  std::vector<std::string> lines;
  Counted counted;
  for (const Kernel& kernel : plan.kernels) {
    const std::int64_t operators = operators_in(kernel, counted);
    OPWELD_TRY(const std::int64_t saved, saved_bytes(kernel, counted, bindings));
    counted.insert(kernel.recomputed.begin(), kernel.recomputed.end());
    if (operators < 2) continue;
    lines.push_back(fmt::format(
        "AutoFusion: {} -> {}{} saves {}, {} kernel{}", kernel.label, kernel.name,
        kernel.scope.empty() ? "" : fmt::format(" [{}]", kernel.scope),
        human_bytes(static_cast<double>(saved)), operators - 1, operators == 2 ? "" : "s"));
  }
  for (const Recomputation& each : plan.recomputations) {
    OPWELD_TRY(std::string line, recompute_line(each, bindings));
    lines.push_back(std::move(line));
  }
  if (every_edge) {
    const std::vector<std::string> kept = kept_edges_log(plan);
    lines.insert(lines.end(), kept.begin(), kept.end());
  }
  return lines;
}

std::vector<std::string> kept_edges_log(const FusionPlan& plan) {
  std::vector<std::string> lines;
  for (const Verdict& verdict : plan.verdicts) {
    if (verdict.code != ReasonCode::Fused) lines.push_back(keep_line(verdict));
  }
  return lines;
}

Expected<std::vector<std::string>> edge_log(const FusionPlan& plan, const Bindings& bindings) {
  std::vector<std::string> lines;
  for (const Verdict& verdict : plan.verdicts) {
    if (verdict.code != ReasonCode::Fused) {
      lines.push_back(keep_line(verdict));
      continue;
    }
    OPWELD_TRY(std::string line, fuse_line(plan, verdict, bindings));
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string nothing_fused_line(const FusionPlan& plan) {
  std::map<ReasonCode, int> kept;
  for (const Verdict& verdict : plan.verdicts) {
    if (verdict.code != ReasonCode::Fused) ++kept[verdict.code];
  }
  std::string codes;
  for (const auto& [code, count] : kept) {
    codes += fmt::format("{}{} {}", codes.empty() ? "" : ", ", count, reason(code).name);
  }
  std::string why = "no operator reads what another computes";
  if (!plan.verdicts.empty()) why = "kept apart: " + (codes.empty() ? "none" : codes);
  return fmt::format("AutoFusion: no kernel fuses operators; {}", why);
}

std::vector<std::string> conditions_log(const FusionPlan& plan, const Bindings& bindings) {
  std::vector<std::string> lines;
  for (const SizeCondition& each : plan.conditions) {
    const auto value = each.size.evaluate(bindings);
    lines.push_back(fmt::format("for sizes that give {} {} or more: {} here", each.least, each.what,
                                value ? fmt::format("{}", *value) : "too many to count"));
  }
  return lines;
}

std::string version_text(const FusionPlan& plan, const Bindings& bindings) {
  if (plan.versions.empty()) return "";
  std::vector<std::string> asked;
  for (const SizeCondition& each : plan.conditions) {
    const auto value = each.size.evaluate(bindings);
    asked.push_back(fmt::format("{} {} or more{}", each.least, each.what,
                                value ? fmt::format(", {} here", *value) : ""));
  }
  return fmt::format(
      "plan {} of {}, for {}", plan.version + 1, plan.versions.size(),
      asked.empty() ? "any other sizes" : fmt::format("{}", fmt::join(asked, " and ")));
}

std::string versions_log(const FusionPlan& plan) {
  if (plan.versions.empty()) return "";
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < plan.versions.size(); ++i) {
    const auto& [kernels, conditions] = plan.versions[i];
    std::vector<std::string> asked;
    for (const SizeCondition& each : conditions) {
      asked.push_back(fmt::format("{} {}", each.least, each.what));
    }
    texts.push_back(
        fmt::format("{}{}{} {}", kernels, i > 0 ? "" : (kernels == 1 ? " kernel" : " kernels"),
                    i == plan.version ? " (this one)" : "",
                    asked.empty() ? "for any other sizes"
                                  : fmt::format("from {} on", fmt::join(asked, " and "))));
  }
  return fmt::format("{} plans: {}", texts.size(), fmt::join(texts, ", "));
}

std::string search_log(const FusionPlan& plan) {
  constexpr double kMilli = 1e3;
  const SearchAccount& search = plan.search;
  const std::string passed_over =
      search.passed_over == 0
          ? ""
          : fmt::format("; cut short: {} pairs that might have gained were not looked at",
                        search.passed_over);
  return fmt::format(
      "search: {} pairs of kernels looked at, {} cut otherwise, {} kernels joined one beside them, "
      "{} the matmul before them; expected {:.3f} ms, greedily {:.3f} ms{}",
      search.regions, search.improved, search.siblings, search.statistics, search.seconds * kMilli,
      search.greedy_seconds * kMilli, passed_over);
}

Expected<std::string> explain_json(const FusionPlan& plan, const Bindings& bindings,
                                   const LaunchAccount& launches,
                                   std::span<const std::string> tuning, const ModelNames* names) {
  Json result;
  result["level"] = to_string(plan.level);
  result["sizes"] = Json::object();
  for (const auto& [name, value] : bindings) result["sizes"][name] = value;
  OPWELD_TRY(result["conditions"], conditions_json(plan.conditions, bindings));
  OPWELD_TRY(result["versions"], versions_json(plan, bindings));
  result["search"] = {{"greedy_seconds", plan.search.greedy_seconds},
                      {"seconds", plan.search.seconds},
                      {"regions", plan.search.regions},
                      {"improved", plan.search.improved},
                      {"siblings", plan.search.siblings},
                      {"statistics", plan.search.statistics},
                      {"passed_over", plan.search.passed_over},
                      {"questions", plan.search.questions}};
  OPWELD_TRY(result["kernels"], kernels_json(plan, bindings, launches, names));
  OPWELD_TRY(result["edges"], edges_json(plan, bindings, names));
  OPWELD_TRY(result["recomputed"], recomputed_json(plan, bindings));
  result["layers"] = Json::array();
  OPWELD_TRY(const auto layers, layer_traffic(plan, bindings));
  for (const LayerTraffic& layer : layers) {
    Json entry = {{"layer", layer.scope}};
    entry.update(traffic_json(layer.traffic));
    result["layers"].push_back(std::move(entry));
  }
  OPWELD_TRY(const auto equal, equal_layers(plan, bindings));
  result["equal_layers"] = Json::array();
  for (const EqualLayers& each : equal) {
    Json entry = {{"first", each.first}, {"last", each.last}, {"count", each.count}};
    entry.update(traffic_json(each.traffic));
    result["equal_layers"].push_back(std::move(entry));
  }
  OPWELD_TRY(const Traffic total, total_traffic(plan, bindings));
  result["totals"] = traffic_json(total);
  result["totals"]["launches"] = launches.launches;
  result["totals"]["barriers"] = launches.barriers;
  OPWELD_TRY(result["log"], fusion_log(plan, bindings, true));
  result["tuning"] = tuning;
  // Names of a model may be any bytes; JSON is UTF-8.
  return result.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace opweld
