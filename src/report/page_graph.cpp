#include "report/page_graph.h"

#include <map>
#include <utility>

#include "fusion/reasons.h"
#include "report/provenance.h"

namespace opweld {

using Json = nlohmann::ordered_json;

namespace {

bool is_constant(const Node& node) {
  return node.op() == "constant";
}

// How an edge of a graph is told.
struct EdgeAccount {
  std::string_view verdict;
  std::string_view code = {};
  std::string detail = {};
  int kernel = -1;
};

EdgeAccount account_of(const Verdict& verdict) {
  if (verdict.code == ReasonCode::Fused) return {"fused", {}, verdict.detail, verdict.kernel};
  return {"kept", reason(verdict.code).name, verdict.detail, -1};
}

// Writes nodes and edges down; who is written is found again by its place in the graph.
class GraphWriter {
 public:
  explicit GraphWriter(const Bindings& sizes) : sizes_(sizes) {
    json_["nodes"] = Json::array();
    json_["edges"] = Json::array();
  }

  void add_input(const Value& value) {
    input_index_[&value] = next_;
    add(value.name(), "input", "", {OperatorFate::Kept, -1}, "edge", to_string(value.type()));
  }

  void add_node(const Node& node, const Origin& origin) {
    node_index_[&node] = next_;
    const std::string& op = node.source().op.empty() ? node.op() : node.source().op;
    add(node.display_name(), op, node.source().scope, origin, to_string(origin.fate),
        to_string(node.result()->type()));
  }

  // Edges come after all nodes.
  Status add_edge(const Value& value, const Node& reader, const EdgeAccount& account) {
    return add_edge(value, node_index_.at(&reader), account);
  }

  Status add_output(const Graph::Output& output) {
    const int index = next_;
    add(output.name, "output", "", {OperatorFate::Kept, -1}, "edge",
        to_string(output.value->type()));
    return add_edge(*output.value, index, {"edge"});
  }

  Json take() { return std::move(json_); }

 private:
  void add(const std::string& name, std::string_view op, const std::string& layer,
           const Origin& origin, std::string_view fate, const std::string& type) {
    Json node = {{"name", name}, {"op", op}, {"layer", layer}, {"fate", fate}, {"type", type}};
    if (origin.kernel >= 0) node["kernel"] = origin.kernel;
    json_["nodes"].push_back(std::move(node));
    ++next_;
  }

  Status add_edge(const Value& value, int to, const EdgeAccount& account) {
    const Node* const producer = value.producer();
    if (producer != nullptr && is_constant(*producer)) return {};
    const int from = producer == nullptr ? input_index_.at(&value) : node_index_.at(producer);
    OPWELD_TRY(const std::int64_t bytes, value.type().num_bytes().evaluate(sizes_));
    Json edge = {{"from", from},
                 {"to", to},
                 {"type", to_string(value.type())},
                 {"bytes", bytes},
                 {"verdict", account.verdict}};
    if (!account.code.empty()) edge["code"] = account.code;
    if (!account.detail.empty()) edge["detail"] = account.detail;
    if (account.kernel >= 0) edge["kernel"] = account.kernel;
    json_["edges"].push_back(std::move(edge));
    return {};
  }

  const Bindings& sizes_;
  Json json_;
  int next_ = 0;
  std::map<const Value*, int> input_index_;
  std::map<const Node*, int> node_index_;
};

// The verdicts of a plan, for edges of the graph that it was made from.
class Verdicts {
 public:
  explicit Verdicts(const FusionPlan& plan) {
    std::map<const Node*, int> kernel_of;
    for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
      for (const Node* node : plan.kernels[i].nodes) kernel_of[node] = static_cast<int>(i);
    }
    for (const Verdict& verdict : plan.verdicts) {
      by_ids_.emplace(std::pair(verdict.producer->id(), verdict.consumer->id()), &verdict);
      if (verdict.code == ReasonCode::Fused) continue;
      const auto from = kernel_of.find(verdict.producer);
      const auto to = kernel_of.find(verdict.consumer);
      if (from == kernel_of.end() || to == kernel_of.end()) continue;
      by_kernels_.emplace(std::pair(from->second, to->second), &verdict);
    }
  }

  // On the edge itself, as far as both nodes are still there.
  [[nodiscard]] const Verdict* on(const Node& from, const Node& to) const {
    const auto found = by_ids_.find({from.id(), to.id()});
    return found == by_ids_.end() ? nullptr : found->second;
  }
  // The first that kept something of one kernel out of the other.
  [[nodiscard]] const Verdict* between(int from, int to) const {
    const auto found = by_kernels_.find({from, to});
    return found == by_kernels_.end() ? nullptr : found->second;
  }

 private:
  std::map<std::pair<int, int>, const Verdict*> by_ids_;
  std::map<std::pair<int, int>, const Verdict*> by_kernels_;
};

EdgeAccount imported_edge(const Node& from, const Node& to, const Origin& origin,
                          const Origin& target, const Verdicts& verdicts) {
  if (const Verdict* const verdict = verdicts.on(from, to)) return account_of(*verdict);
  if (origin.fate == OperatorFate::Folded || target.fate == OperatorFate::Folded) {
    return {"folded", {}, "known when the model is compiled"};
  }
  if (origin.kernel >= 0 && origin.kernel == target.kernel) {
    const bool rewritten =
        origin.fate == OperatorFate::Absorbed || target.fate == OperatorFate::Absorbed;
    return {"fused", {}, rewritten ? "became one operator by a rewrite" : "", origin.kernel};
  }
  if (origin.kernel < 0 || target.kernel < 0) {
    const bool alias = origin.fate == OperatorFate::Alias || target.fate == OperatorFate::Alias;
    return {"fused", {}, alias ? "a reshape, which moves nothing" : "simplified away"};
  }
  if (const Verdict* const verdict = verdicts.between(origin.kernel, target.kernel)) {
    return account_of(*verdict);
  }
  return {"kept", {}, "rewritten before it was planned; the kernels do not read each other here"};
}

}  // namespace

Expected<Json> imported_graph_json(const Graph& imported, const FusionPlan& plan,
                                   const Bindings& sizes) {
  const std::map<const Node*, Origin> origins = trace_origins(imported, plan);
  const Verdicts verdicts(plan);
  GraphWriter writer(sizes);
  for (const Value* input : imported.inputs()) writer.add_input(*input);
  for (const auto& node : imported.nodes()) {
    if (!is_constant(*node)) writer.add_node(*node, origins.at(node.get()));
  }
  for (const auto& node : imported.nodes()) {
    for (const Value* operand : node->operands()) {
      if (operand == nullptr) continue;
      const Node* const producer = operand->producer();
      EdgeAccount account{"edge"};
      if (producer != nullptr && !is_constant(*producer)) {
        account =
            imported_edge(*producer, *node, origins.at(producer), origins.at(node.get()), verdicts);
      }
      OPWELD_CHECK(writer.add_edge(*operand, *node, account));
    }
  }
  for (const Graph::Output& output : imported.outputs()) OPWELD_CHECK(writer.add_output(output));
  return writer.take();
}

Expected<Json> planned_graph_json(const Graph& planned, const FusionPlan& plan,
                                  const Bindings& sizes) {
  std::map<const Node*, Origin> origins;
  for (const Alias& alias : plan.aliases)
    origins[alias.result->producer()] = {OperatorFate::Alias, -1};
  for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
    for (const Node* node : plan.kernels[i].nodes) {
      origins[node] = {OperatorFate::Kept, static_cast<int>(i)};
    }
  }
  GraphWriter writer(sizes);
  for (const Value* input : planned.inputs()) writer.add_input(*input);
  for (const auto& node : planned.nodes()) {
    if (!is_constant(*node)) writer.add_node(*node, origins.at(node.get()));
  }
  for (const auto& node : planned.nodes()) {
    for (const Value* operand : node->operands()) {
      if (operand != nullptr && operand->is_graph_input()) {
        OPWELD_CHECK(writer.add_edge(*operand, *node, {"edge"}));
      }
    }
  }
  for (const Verdict& verdict : plan.verdicts) {
    OPWELD_CHECK(writer.add_edge(*verdict.value, *verdict.consumer, account_of(verdict)));
  }
  for (const Graph::Output& output : planned.outputs()) OPWELD_CHECK(writer.add_output(output));
  return writer.take();
}

}  // namespace opweld
