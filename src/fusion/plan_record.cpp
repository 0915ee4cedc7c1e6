#include "fusion/plan_record.h"

#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "fusion/kernel_kind.h"
#include "graph/text.h"
#include "ops/register.h"

namespace opweld {

namespace {

using Json = nlohmann::json;

class Writer {
 public:
  explicit Writer(const Graph& graph) {
    for (const auto& node : graph.nodes()) {
      const int place = static_cast<int>(places_.size());
      places_.emplace(node.get(), place);
    }
    for (const Value* input : graph.inputs()) {
      const int index = static_cast<int>(inputs_.size());
      inputs_.emplace(input, index);
    }
  }

  [[nodiscard]] Json operator()(const FusionPlan& plan) const {
    Json json = {{"level", plan.level}, {"more_from_rows", plan.more_from_rows}};
    const SearchAccount& search = plan.search;
    json["search"] = {search.greedy_seconds, search.seconds,  search.regions,
                      search.improved,       search.siblings, search.statistics,
                      search.passed_over,    search.questions};
    Json& conditions = json["conditions"] = Json::array();
    for (const SizeCondition& each : plan.conditions) {
      conditions.push_back({each.size.to_string(), each.least, each.what});
    }
    Json& kernels = json["kernels"] = Json::array();
    for (const Kernel& kernel : plan.kernels) {
      Json nodes = Json::array();
      for (const Node* node : kernel.nodes) nodes.push_back(places_.at(node));
      Json recomputed = Json::array();
      for (const Node* node : kernel.recomputed) recomputed.push_back(places_.at(node));
      kernels.push_back({kernel.id, kernel.kind, std::move(nodes), std::move(recomputed)});
    }
    Json& aliases = json["aliases"] = Json::array();
    for (const Alias& alias : plan.aliases) {
      aliases.push_back({value(alias.result), value(alias.source)});
    }
    Json& verdicts = json["verdicts"] = Json::array();
    for (const Verdict& each : plan.verdicts) {
      verdicts.push_back({value(each.value), place(each.producer), place(each.consumer), each.code,
                          each.detail, each.bytes_saved.to_string(), each.flops_added.to_string(),
                          each.kernel});
    }
    Json& recomputations = json["recomputations"] = Json::array();
    for (const Recomputation& each : plan.recomputations) {
      recomputations.push_back({value(each.value), each.kernels, each.bytes_saved.to_string(),
                                each.flops_added.to_string()});
    }
    return json;
  }

 private:
  // -1: none.
  [[nodiscard]] int place(const Node* node) const {
    return node == nullptr ? -1 : places_.at(node);
  }

  // An input of the graph by its index, else a node and which of its results.
  [[nodiscard]] Json value(const Value* value) const {
    if (value->is_graph_input()) return {-1, inputs_.at(value)};
    return {places_.at(value->producer()), value->result_index()};
  }

  std::map<const Node*, int> places_;
  std::map<const Value*, int> inputs_;
};

// Every error is an exception in here, ours or one of the JSON library's; parse_plan_record() is
// where they end.
class Reader {
 public:
  explicit Reader(const Graph& graph) : graph_(graph), nodes_(graph.nodes_in_order()) {
    std::vector<std::shared_ptr<const SymbolInfo>> symbols;
    const auto collect = [&](const Value* value) {
      for (const Dim& dim : value->shape()) dim.collect_symbols(symbols);
    };
    for (const Value* input : graph.inputs()) collect(input);
    for (const Node* node : nodes_) {
      for (int i = 0; i < node->num_results(); ++i) collect(node->result(i));
    }
    for (const auto& symbol : symbols) need(symbols_.add(*symbol).has_value());
  }

  [[nodiscard]] FusionPlan operator()(const Json& json) const {
    FusionPlan plan;
    plan.level = json.at("level").get<FusionLevel>();
    need(plan.level <= FusionLevel::Auto);
    plan.more_from_rows = json.at("more_from_rows").get<std::int64_t>();
    const Json& search = json.at("search");
    plan.search = {search.at(0).get<double>(), search.at(1).get<double>(),
                   search.at(2).get<int>(),    search.at(3).get<int>(),
                   search.at(4).get<int>(),    search.at(5).get<int>(),
                   search.at(6).get<int>(),    search.at(7).get<std::int64_t>()};
    for (const Json& each : json.at("conditions")) {
      plan.conditions.push_back(
          {dim(each.at(0)), each.at(1).get<std::int64_t>(), each.at(2).get<std::string>()});
    }
    for (const Json& each : json.at("kernels")) {
      Kernel kernel;
      kernel.id = each.at(0).get<int>();
      kernel.kind = each.at(1).get<KernelKind>();
      need(kernel.kind <= KernelKind::Extern);
      for (const Json& place : each.at(2)) {
        kernel.nodes.push_back(node(place));
        need(kernel.nodes.back() != nullptr && kernel.nodes.back()->op() != "constant");
      }
      need(!kernel.nodes.empty());
      for (const Json& place : each.at(3)) kernel.recomputed.push_back(node(place));
      complete_kernel(kernel);
      plan.kernels.push_back(std::move(kernel));
    }
    for (const Json& each : json.at("aliases")) {
      const Alias alias{value(each.at(0)), value(each.at(1))};
      const Node* const reshape = alias.result->producer();
      need(reshape != nullptr && is_alias(*reshape) && reshape->operand(0) == alias.source);
      plan.aliases.push_back(alias);
    }
    for (const Json& each : json.at("verdicts")) {
      Verdict verdict;
      verdict.value = value(each.at(0));
      verdict.producer = node(each.at(1));
      verdict.consumer = node(each.at(2));
      verdict.code = each.at(3).get<ReasonCode>();
      need(verdict.code <= ReasonCode::Recompute);
      verdict.detail = each.at(4).get<std::string>();
      verdict.bytes_saved = dim(each.at(5));
      verdict.flops_added = dim(each.at(6));
      verdict.kernel = each.at(7).get<int>();
      need(verdict.producer != nullptr && verdict.consumer != nullptr && verdict.kernel >= -1 &&
           verdict.kernel < static_cast<int>(plan.kernels.size()));
      plan.verdicts.push_back(std::move(verdict));
    }
    for (const Json& each : json.at("recomputations")) {
      plan.recomputations.push_back(
          {value(each.at(0)), each.at(1).get<int>(), dim(each.at(2)), dim(each.at(3))});
      need(plan.recomputations.back().value->producer() != nullptr);
    }
    need(check_plan(graph_, plan).empty());
    return plan;
  }

 private:
  static void need(bool holds) {
    if (!holds) throw std::out_of_range("no record of plans for this graph");
  }

  [[nodiscard]] Node* node(const Json& place) const {
    const int index = place.get<int>();
    return index == -1 ? nullptr : nodes_.at(static_cast<std::size_t>(index));
  }

  [[nodiscard]] Value* value(const Json& json) const {
    Node* const producer = node(json.at(0));
    const int index = json.at(1).get<int>();
    if (producer == nullptr) {
      need(index >= 0 && static_cast<std::size_t>(index) < graph_.inputs().size());
      return graph_.inputs()[static_cast<std::size_t>(index)];
    }
    need(index >= 0 && index < producer->num_results());
    return producer->result(index);
  }

  [[nodiscard]] Dim dim(const Json& text) const {
    if (const auto written = text.get<std::string>(); written != Dim::overflow().to_string()) {
      const auto parsed = Dim::parse(written, symbols_);
      need(parsed.has_value());
      return *parsed;
    }
    return Dim::overflow();
  }

  const Graph& graph_;
  std::vector<Node*> nodes_;
  SymbolTable symbols_;
};

std::string target_key(const Target& target) {
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", target.name,
                     target.model, target.cpu, target.features, target.vector_bits,
                     target.vector_registers, target.fma_per_cycle, target.has_f16c,
                     target.has_bf16_dot, target.has_amx_bf16, target.cores, target.l1_bytes,
                     target.l2_bytes, target.l3_bytes, target.on_chip_bytes, target.outer_bytes,
                     target.peak_flops, target.matrix_flops, target.bandwidth,
                     target.cache_bandwidth, target.launch_seconds);
}

}  // namespace

namespace {

// What is left of a graph when its model is trained on: of large constants of floats, the types.
Graph without_weights(const Graph& graph) {
  constexpr std::int64_t kNumbers = 64;
  Graph rest = graph.clone();
  for (const auto& node : rest.nodes()) {
    if (node->op() != "constant") continue;
    const Tensor& value = node->attributes().tensor("value");
    if (!is_float(value.dtype()) || value.num_elements() <= kNumbers) continue;
    node->attributes().set("value", Tensor::borrow(value.dtype(), {0}, nullptr, nullptr));
  }
  return rest;
}

}  // namespace

std::string planning_key(const Graph& graph, const PlanOptions& options, std::string_view more) {
  std::string without;
  for (const KernelKind kind : options.without) without += fmt::format(" {}", to_string(kind));
  return fmt::format(
      "plan\n{}\nlevel {} rules {} without{} nodes {} tensors {} nominal {} rows {} search {} "
      "questions {} {} chains {} {} recompute {} {}\n{}{}",
      target_key(*options.target), static_cast<int>(options.level), static_cast<int>(options.rules),
      without, options.max_nodes, options.max_tensors, options.nominal_size, options.rows_granted,
      options.search, options.search_questions, options.search_questions_of_node,
      options.attention_chains, options.chains_of_any_rows, options.recompute, more,
      to_text(without_weights(graph)), declarations_in(graph));
}

std::string plan_record(const Graph& graph, std::span<const FusionPlan> plans) {
  const Writer write(graph);
  Json json = Json::array();
  for (const FusionPlan& plan : plans) json.push_back(write(plan));
  return json.dump();
}

std::optional<std::vector<FusionPlan>> parse_plan_record(const Graph& graph,
                                                         std::string_view text) {
  try {
    const Reader read(graph);
    std::vector<FusionPlan> plans;
    for (const Json& each : Json::parse(text)) plans.push_back(read(each));
    if (plans.empty()) return std::nullopt;
    number_versions(plans);
    return plans;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace opweld
